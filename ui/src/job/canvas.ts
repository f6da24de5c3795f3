// Measures the box and paints what is to be seen in it, whenever something of it is another.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Trace } from "../core/types";
import { useStore } from "../core/store";
import { painted } from "../core/theme";
import type { Axis } from "./axis";
import { Painter, type Window, coloursOf, fit } from "./painter";
import type { Row, Stretch } from "./rows";
import { HEAD, ROW } from "./zoom";

export interface Box {
  width: number;
  height: number;
  /** How far it is scrolled. */
  top: number;
}

type Ref<T> = RefObject<T | null>;

/** The box that scrolls, and the width of what is painted in it. */
export function useBox(body: Ref<HTMLElement>, bars: Ref<HTMLElement>): [Box, (top: number) => void] {
  const [box, setBox] = useState<Box>({ width: 0, height: 0, top: 0 });
  useLayoutEffect(() => {
    const scroller = body.current;
    if (!scroller) return;
    const measure = (): void =>
      setBox({
        width: bars.current?.parentElement?.clientWidth ?? 0,
        height: scroller.clientHeight,
        top: scroller.scrollTop,
      });
    const watch = new ResizeObserver(measure);
    watch.observe(scroller);
    measure();
    return () => watch.disconnect();
  }, []);
  return [box, (top) => setBox((before) => ({ ...before, top }))];
}

export interface Picture {
  trace: Trace;
  rows: readonly Row[];
  stretches: readonly Stretch[];
  axis: Axis;
  window: Window;
  now: number;
}

export function useCanvas(
  head: Ref<HTMLCanvasElement>,
  bars: Ref<HTMLCanvasElement>,
  box: Box,
  picture: Picture,
): void {
  const theme = useStore(painted);
  const { trace, rows, stretches, axis, window, now } = picture;
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      if (!bars.current || !head.current || box.width === 0) return;
      const colours = coloursOf(bars.current);
      const above = fit(head.current, box.width, HEAD);
      if (above) new Painter(above, axis, window, box.width, now, colours).head(trace.start_at, stretches);
      const on = fit(bars.current, box.width, box.height);
      if (!on) return;
      const painter = new Painter(on, axis, window, box.width, now, colours);
      painter.grid(Math.min(box.height, rows.length * ROW - box.top), stretches);
      const first = Math.floor(box.top / ROW);
      const last = Math.min(Math.ceil((box.top + box.height) / ROW), rows.length);
      for (let nth = first; nth < last; nth += 1) painter.row(rows[nth] as Row, nth * ROW - box.top, ROW);
    });
    return () => cancelAnimationFrame(frame);
  }, [trace, rows, stretches, axis, window, box, now, theme]);
}
