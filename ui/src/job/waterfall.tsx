// The waterfall: every call and every change of hands, against time.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useKeys } from "../core/keys";
import type { Trace } from "../core/types";
import { useNow } from "../parts/time";
import { Axis } from "./axis";
import { Lines } from "./row_elements";
import { useViewState } from "./view_state";
import { ALL } from "./view_state_text";
import { useBox, useCanvas } from "./canvas";
import { type Row, rowsOf, scopesOf, stretchesOf } from "./rows";
import { Toolbar } from "./toolbar";
import { ROW, clampWindow, useDrag, zoomed } from "./zoom";

interface WaterfallProps {
  trace: Trace;
  /** The id of the chosen row. */
  chosen: string | null;
  choose(row: Row): void;
  /** Whether time goes on: the job is not over, and the slider is at its end. */
  live: boolean;
}

const SHOWN_MAX = 30;
const CLOSER = 0.6;
const PAGE = 15;

export function Waterfall({ trace, chosen, choose, live }: WaterfallProps): JSX.Element {
  const scopes = useMemo(() => scopesOf(trace), [trace]);
  const { window, setWindow, toScale, setToScale, folded, fold, foldAll } = useViewState(scopes);
  const body = useRef<HTMLDivElement>(null);
  const bars = useRef<HTMLCanvasElement>(null);
  const head = useRef<HTMLCanvasElement>(null);
  const [box, setTop] = useBox(body, bars);
  const ticking = useNow();
  const now = live ? Math.max(ticking, trace.end_at) : trace.end_at;

  const rows = useMemo(() => rowsOf(trace, folded), [trace, folded]);
  const stretches = useMemo(() => stretchesOf(trace), [trace]);
  const axis = useMemo(() => new Axis(trace, now, toScale), [trace, now, toScale]);
  useCanvas(head, bars, box, { trace, rows, stretches, axis, window, now });
  useDrag(bars, head, body, setWindow, box.width);

  // A view that shows the end of a running job follows it.
  const atEnd = useRef(false);
  useEffect(() => {
    const scroller = body.current;
    if (live && scroller && atEnd.current) scroller.scrollTop = scroller.scrollHeight;
  }, [rows.length, live]);
  const scrolled = (event: Event): void => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget as HTMLElement;
    atEnd.current = scrollTop + clientHeight > scrollHeight - ROW;
    setTop(scrollTop);
  };

  const at = useMemo(() => rows.findIndex((row) => row.id === chosen), [rows, chosen]);
  const here = rows[at];
  const show = (asked: number): void => {
    const nth = Math.min(Math.max(asked, 0), rows.length - 1);
    const row = rows[nth];
    if (!row || !body.current) return;
    choose(row);
    reveal(body.current, nth);
  };
  const zoom = (by: number): void => setWindow((before) => zoomed(before, by, 0.5));
  const pan = (by: number): void =>
    setWindow((before) => clampWindow(before.from + by * (before.to - before.from), before.to - before.from));
  useKeys([
    { keys: "j", what: "the next row", do: () => show(at + 1) },
    { keys: "k", what: "the row before", do: () => show(at - 1) },
    { keys: "Enter", what: "fold or unfold a scope", do: () => here?.kind === "scope" && fold(here.id) },
    { keys: "+", what: "closer", do: () => zoom(CLOSER) },
    { keys: "-", what: "further away", do: () => zoom(1 / CLOSER) },
    { keys: "0", what: "all of it", do: () => setWindow(ALL) },
    { keys: "h", what: "earlier", do: () => pan(-0.25) },
    { keys: "l", what: "later", do: () => pan(0.25) },
    { keys: "f", what: "fold or unfold all scopes", do: () => foldAll(folded.size === 0) },
  ]);
  const arrow = (event: KeyboardEvent): void => {
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -rows.length, End: rows.length }[
      event.key
    ];
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    if (move !== undefined) show(at + move);
    else if (sideways && here?.kind === "scope") fold(here.id, event.key === "ArrowLeft");
    else return;
    event.preventDefault();
  };

  return (
    <div class="waterfall">
      <Toolbar
        axis={axis}
        window={window}
        toScale={toScale}
        setToScale={setToScale}
        zoom={zoom}
        pan={pan}
        all={() => setWindow(ALL)}
        scopes={scopes.length}
        foldAll={foldAll}
        rows={rows.length}
      />
      <div class="wf-head">
        <div class="wf-corner dim small">worker</div>
        <div class="wf-ruler">
          <canvas ref={head} aria-hidden="true" />
        </div>
        <div class="wf-tail" />
      </div>
      <div
        class="wf-body"
        ref={body}
        role="tree"
        aria-label="Calls and changes of the job, in order"
        aria-activedescendant={here ? `row-${at}` : undefined}
        tabIndex={0}
        onKeyDown={arrow}
        onScroll={scrolled}
        style={{ height: `${Math.min(rows.length, SHOWN_MAX) * ROW + 2}px` }}
      >
        <div class="wf-bars" aria-hidden="true">
          <canvas ref={bars} />
        </div>
        <Lines rows={rows} box={box} chosen={chosen} choose={choose} fold={fold} now={now} />
      </div>
    </div>
  );
}

function reveal(scroller: HTMLElement, nth: number): void {
  const top = nth * ROW;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + ROW > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = top + ROW - scroller.clientHeight;
}
