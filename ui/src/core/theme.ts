// Light, dark, or as the system says.

import { store } from "./store";

export type Theme = "system" | "light" | "dark";
const KEPT = "holdfast.theme";

function kept(): Theme {
  try {
    const said = localStorage.getItem(KEPT);
    return said === "light" || said === "dark" ? said : "system";
  } catch {
    return "system";
  }
}

export const theme = store<Theme>(kept());

const darkness = matchMedia("(prefers-color-scheme: dark)");

/** A number that grows when colours change: what is painted on a canvas is painted anew. */
export const painted = store(0);

function show(): void {
  const value = theme.get();
  document.documentElement.dataset.theme = value === "system" ? (darkness.matches ? "dark" : "light") : value;
  painted.set(painted.get() + 1);
}

export function applyTheme(): void {
  show();
  darkness.addEventListener("change", show);
  theme.watch((value) => {
    show();
    try {
      localStorage.setItem(KEPT, value);
    } catch {
      // it holds for this page then
    }
  });
}

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
export const turnTheme = (): void => theme.set(NEXT[theme.get()]);
