// The address says what one sees. Paths are real, and filters, the chosen step and the time slider are its query.

import { store, useStore } from "./store";

export interface Place {
  /** Decoded segments: `/jobs/a%2Fb` is ["jobs", "a/b"]. */
  path: readonly string[];
  query: URLSearchParams;
}

function read(): Place {
  const parts = location.pathname.split("/").filter((part) => part !== "");
  return { path: parts.map(decoded), query: new URLSearchParams(location.search) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not what we wrote; shown as it is, and found nowhere
  }
}

const place = store<Place>(read());
addEventListener("popstate", () => place.set(read()));

export const usePlace = (): Place => useStore(place);
export const here = (): Place => place.get();

export type Query = Record<string, string | number | null | undefined>;

/** The address of a page; ids may have any character. */
export function href(path: readonly string[], query: Query = {}): string {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") said.set(name, String(value));
  }
  const text = said.toString();
  return `/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Goes there. `replace` leaves no step to come back to: for what changes while one looks. */
export function go(address: string, { replace = false } = {}): void {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  const before = place.get();
  place.set(read());
  if (!replace && before.path.join("/") !== place.get().path.join("/")) scrollTo(0, 0);
}

/** The same page with another query: what is named is changed, null takes it away. */
export function ask(changes: Query, options: { replace?: boolean } = {}): void {
  const query: Query = Object.fromEntries(here().query);
  go(href(here().path, { ...query, ...changes }), options);
}

/** One listener for every link of ours, so that links are plain `<a href>` and open in new tabs as they should. */
export function followLinks(): void {
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || /^\/(api|static|metrics|health)(\/|$)/.test(link.pathname)) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
