// How a waterfall is moved: wheel, pinch, drag.

import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import type { Window } from "./painter";

export const ROW = 24;
export const HEAD = 42;
const CLOSEST = 1e-6;

export function clampWindow(from: number, size: number): Window {
  const length = Math.min(Math.max(size, CLOSEST), 1);
  const start = Math.min(Math.max(from, 0), 1 - length);
  return { from: start, to: start + length };
}

/** Closer or further away, around a point that stays where it is. */
export function zoomed(window: Window, by: number, around: number): Window {
  const size = window.to - window.from;
  const next = Math.min(Math.max(size * by, CLOSEST), 1);
  return clampWindow(window.from + around * size - around * next, next);
}

type Ref<T> = RefObject<T | null>;

/** Ctrl and the wheel (or a pinch) zooms, over the ruler the wheel alone does; sideways or with Shift it pans, and so does a drag. */
export function useDrag(
  bars: Ref<HTMLCanvasElement>,
  head: Ref<HTMLCanvasElement>,
  body: Ref<HTMLElement>,
  set: (next: (before: Window) => Window) => void,
  width: number,
): void {
  useEffect(() => {
    const ruler = head.current?.parentElement;
    const scroller = body.current;
    if (!ruler || !scroller || width === 0) return;
    const wheel = (event: WheelEvent): void => {
      const left = bars.current?.getBoundingClientRect().left ?? 0;
      const around = (event.clientX - left) / width;
      const onRuler = event.currentTarget === ruler;
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (
        event.ctrlKey ||
        event.metaKey ||
        (onRuler && Math.abs(event.deltaY) > Math.abs(event.deltaX) && !event.shiftKey)
      ) {
        event.preventDefault();
        set((before) => zoomed(before, Math.exp(event.deltaY / 300), Math.min(Math.max(around, 0), 1)));
      } else if (sideways !== 0 && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        event.preventDefault();
        set((before) =>
          clampWindow(before.from + (sideways / width) * (before.to - before.from), before.to - before.from),
        );
      }
    };
    let dragging: { x: number; from: number; size: number } | null = null;
    let moved = false;
    const down = (event: PointerEvent): void => {
      const inside = bars.current?.getBoundingClientRect();
      if (
        event.button !== 0 ||
        event.pointerType === "touch" ||
        !inside ||
        event.clientX < inside.left ||
        event.clientX > inside.right
      )
        return;
      event.preventDefault(); // else it would mark text
      scroller.focus({ preventScroll: true });
      moved = false;
      set((before) => {
        dragging = { x: event.clientX, from: before.from, size: before.to - before.from };
        return before;
      });
    };
    const move = (event: PointerEvent): void => {
      if (dragging === null || Math.abs(event.clientX - dragging.x) < 3) return;
      moved = true;
      const { x, from, size } = dragging;
      set(() => clampWindow(from - ((event.clientX - x) / width) * size, size));
    };
    const up = (): void => {
      dragging = null;
    };
    // The end of a drag is no click on a row.
    const click = (event: Event): void => {
      if (moved) event.stopPropagation();
      moved = false;
    };
    scroller.addEventListener("click", click, { capture: true });
    for (const one of [ruler, scroller]) {
      one.addEventListener("wheel", wheel, { passive: false });
      one.addEventListener("pointerdown", down);
    }
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    return () => {
      scroller.removeEventListener("click", click, { capture: true });
      for (const one of [ruler, scroller]) {
        one.removeEventListener("wheel", wheel);
        one.removeEventListener("pointerdown", down);
      }
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
  }, [width, set]);
}
