// How one looks at a waterfall, as text: how close, and what is folded.

import type { Window } from "./painter";
import { clampWindow } from "./zoom";

export const ALL: Window = { from: 0, to: 1 };
const DIGITS = 5;

export function zoomText(window: Window): string | null {
  if (window.from <= 0 && window.to >= 1) return null;
  return `${Number(window.from.toFixed(DIGITS))}-${Number(window.to.toFixed(DIGITS))}`;
}

export function readZoom(text: string | null): Window {
  const found = /^([0-9.]+)-([0-9.]+)$/.exec(text ?? "");
  if (!found) return ALL;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return Number.isFinite(from) && Number.isFinite(to) && from < to ? clampWindow(from, to - from) : ALL;
}

/** By their places among all scopes, which come in the order of the journal and stay where they are. */
export function foldsText(folded: ReadonlySet<string>, scopes: readonly string[]): string | null {
  const places = scopes.flatMap((scope, nth) => (folded.has(scope) ? [nth] : []));
  if (places.length === 0) return null;
  return places.length === scopes.length ? "all" : places.join(".");
}

export function readFolds(text: string | null, scopes: readonly string[]): ReadonlySet<string> {
  if (text === "all") return new Set(scopes);
  return new Set((text ?? "").split(".").flatMap((place) => (/^\d+$/.test(place) ? (scopes[Number(place)] ?? []) : [])));
}
