// The rows as elements, so that they can be read, focused and found: only those that are to be seen.

import type { JSX } from "preact";
import { visible } from "../text/visible";
import type { Box } from "./canvas";
import { Label, Tail } from "./row";
import type { Row } from "./rows";
import { ROW } from "./zoom";

const BEYOND = 4;
const NARROW = "(max-width: 1180px)";

/** On a narrow screen the chosen step is below the rows: a click on a row scrolls to it. */
function bringStep(): void {
  if (!matchMedia(NARROW).matches) return;
  requestAnimationFrame(() => document.querySelector(".step")?.scrollIntoView({ block: "nearest" }));
}

interface LinesProps {
  rows: readonly Row[];
  box: Box;
  chosen: string | null;
  choose(row: Row): void;
  fold(id: string): void;
  now: number;
}

export function Lines({ rows, box, chosen, choose, fold, now }: LinesProps): JSX.Element {
  const first = Math.max(Math.floor(box.top / ROW) - BEYOND, 0);
  const last = Math.min(Math.ceil((box.top + box.height) / ROW) + BEYOND, rows.length);
  return (
    <div class="wf-rows" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
      {rows.slice(first, last).map((row, nth) => (
        <div
          key={row.id}
          id={`row-${first + nth}`}
          class={`wf-row ${row.kind} ${row.seam?.kind ?? ""} ${row.id === chosen ? "here" : ""}`}
          role="treeitem"
          aria-level={row.depth + 1}
          aria-setsize={rows.length}
          aria-posinset={first + nth + 1}
          aria-selected={row.id === chosen}
          aria-expanded={row.kind === "scope" ? !row.folded : undefined}
          title={row.span ? visible(row.span.step_key) : row.seam ? visible(row.seam.text) : undefined}
          style={{ top: `${(first + nth) * ROW}px` }}
          onClick={() => {
            choose(row);
            if (row.kind !== "scope") bringStep();
          }}
        >
          <Label row={row} fold={() => fold(row.id)} />
          <Tail row={row} now={now} />
        </div>
      ))}
    </div>
  );
}
