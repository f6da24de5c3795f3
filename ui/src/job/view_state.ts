// How one looks at a waterfall, in the address: how close, what is folded, and whether waits are as long as they were.

import { useEffect, useState } from "preact/hooks";
import { ask, here } from "../core/router";
import { foldsText, readFolds, readZoom, zoomText } from "./view_state_text";
import type { Window } from "./painter";

const SETTLED_MS = 250;

export interface ViewState {
  window: Window;
  setWindow(next: Window | ((before: Window) => Window)): void;
  toScale: boolean;
  setToScale(on: boolean): void;
  folded: ReadonlySet<string>;
  /** Folds or unfolds the scope of this row; without a word the other way round than it is. */
  fold(row: string, on?: boolean): void;
  foldAll(on: boolean): void;
}

/** As the address says at first; and the address says it again as soon as nothing moves any more. */
export function useViewState(scopes: readonly string[]): ViewState {
  const [window, setWindow] = useState<Window>(() => readZoom(here().query.get("zoom")));
  const [toScale, setToScale] = useState(() => here().query.get("scale") === "true");
  const [folded, setFolded] = useState(() => readFolds(here().query.get("folded"), scopes));
  const zoom = zoomText(window);
  const folds = foldsText(folded, scopes);
  useEffect(() => {
    const said = { zoom, folded: folds, scale: toScale ? "true" : null };
    const timer = setTimeout(() => ask(said, { replace: true }), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [zoom, folds, toScale]);
  return {
    window,
    setWindow,
    toScale,
    setToScale,
    folded,
    fold(row, on) {
      const scope = row.replace(/^scope:/, "");
      setFolded((before) => {
        const next = new Set(before);
        if (on ?? !next.has(scope)) next.add(scope);
        else next.delete(scope);
        return next;
      });
    },
    foldAll: (on) => setFolded(new Set(on ? scopes : [])),
  };
}
