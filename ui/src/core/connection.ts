// Whether we hear the server, for the light in the corner.

import { store } from "./store";

/** `live`: a stream is open. `up`: the last question was answered. `reconnecting`: a stream was cut off. `away`: no answer. */
export type Connection = "up" | "away" | "reconnecting" | "live";

export const connection = store<Connection>("up");

let answers = true;
const streams = new Map<symbol, "live" | "reconnecting">();

function tell(): void {
  const states = [...streams.values()];
  connection.set(
    !answers ? "away" : states.includes("reconnecting") ? "reconnecting" : states.includes("live") ? "live" : "up",
  );
}

/** A question was answered, whatever the answer; or it was not. */
export function answered(yes: boolean): void {
  answers = yes;
  tell();
}

/** How a stream is; null when it has no listener. */
export function streaming(which: symbol, state: "live" | "reconnecting" | null): void {
  if (state === null) streams.delete(which);
  else streams.set(which, state);
  tell();
}
