// What opens the server: the token of its start, which the printed link carries behind the #, or an API key.
//
// A fragment never leaves the browser, so the token is in no log and no Referer. It is taken out of the address at once and
// kept for this tab alone. There is no cookie, so nothing that another site makes this browser send carries it.

import { store, useStore } from "./store";

const KEPT = "holdfast.bearer";

function kept(): string | null {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null; // storage may be forbidden; then it holds until the page is loaded again
  }
}

const bearer = store<string | null>(kept());
export const asksForKey = store(false);
/** Counts how often a token was found to be of another start. */
export const outlived = store(0);

export const useBearer = (): string | null => useStore(bearer);
export const bearerNow = (): string | null => bearer.get();

export function keepBearer(value: string | null): void {
  bearer.set(value);
  try {
    if (value === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, value);
  } catch {
    // as above
  }
}

/** The token of the printed link is ours, and gone from the address. */
export function takeFromAddress(): void {
  const said = new URLSearchParams(location.hash.slice(1));
  const token = said.get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  if (token) keepBearer(token);
}
