// A budget that is used up: which limit it was, and how far it is raised.

import type { Field, Given } from "../parts/dialog";

interface Limit {
  option: string;
  label: string;
  /** So many exact units in one of those that one types. */
  units: number;
}

const LIMITS: Record<string, Limit> = {
  usd_micros: { option: "--usd", label: "Money, in dollars", units: 1_000_000 },
  tokens: { option: "--tokens", label: "Tokens", units: 1 },
  tool_calls: { option: "--tool-calls", label: "Tool calls", units: 1 },
  wall_us: { option: "--wall", label: "Time, in minutes", units: 60_000_000 },
  depth: { option: "--depth", label: "Levels of children", units: 1 },
  fan_out: { option: "--fan-out", label: "Children of one job", units: 1 },
};

/** The command line says which limit it was and proposes another; so does this. */
export function raiseFields(commands: readonly string[]): Field[] {
  const command = commands.find((one) => one.startsWith("holdfast raise")) ?? "";
  const found = Object.entries(LIMITS).filter(([, limit]) => command.includes(` ${limit.option} `));
  const shown = found.length > 0 ? found : Object.entries(LIMITS);
  return shown.map(([name, limit]) => {
    const proposed = command.match(new RegExp(` ${limit.option} '?([0-9.]+)'?( |$)`))?.[1];
    return {
      name,
      label: limit.label,
      kind: "number",
      required: found.length > 0,
      ...(proposed ? { value: proposed } : {}),
      hint: "The new total, not an increment.",
    };
  });
}

export function readLimits(given: Given): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const [name, limit] of Object.entries(LIMITS)) {
    const typed = given[name]?.trim();
    if (typed) limits[name] = Math.round(Number(typed) * limit.units);
  }
  return limits;
}
