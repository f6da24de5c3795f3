// What /metrics says, read: gauges as they are, histograms as percentiles of what happened between two looks.

export interface Sample {
  at: number;
  /** By name and labels, as written: `name{a="b"}`. */
  values: ReadonlyMap<string, number>;
}

const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$/;

export function parse(text: string, at: number): Sample {
  const values = new Map<string, number>();
  for (const one of text.split("\n")) {
    if (one === "" || one.startsWith("#")) continue;
    const found = LINE.exec(one);
    if (found) values.set(`${found[1]}${found[2] ?? ""}`, Number(found[3]));
  }
  return { at, values };
}

/** The sum over all labels, or over those that have all of these words in them; null if there is no such sample. */
export function sum(sample: Sample, name: string, ...having: string[]): number | null {
  let found: number | null = null;
  for (const [key, value] of sample.values) {
    if (key !== name && !key.startsWith(`${name}{`)) continue;
    if (having.every((words) => key.includes(words))) found = (found ?? 0) + value;
  }
  return found;
}

/** How much a counter grew; one that is smaller than before was begun anew. */
export function growth(before: Sample, now: Sample, name: string, ...having: string[]): number | null {
  const is = sum(now, name, ...having);
  const was = sum(before, name, ...having) ?? 0;
  return is === null ? null : is >= was ? is - was : is;
}

/** The value below which this part of what happened between two looks lies, by its buckets; null if nothing happened. */
export function quantile(part: number, before: Sample | null, now: Sample, name: string): number | null {
  const buckets = new Map<number, number>();
  for (const [key, value] of now.values) {
    if (!key.startsWith(`${name}_bucket{`)) continue;
    const edge = /le="([^"]+)"/.exec(key)?.[1];
    if (edge === undefined) continue;
    const most = edge === "+Inf" ? Number.POSITIVE_INFINITY : Number(edge);
    const was = before?.values.get(key) ?? 0;
    buckets.set(most, (buckets.get(most) ?? 0) + (value >= was ? value - was : value));
  }
  const edges = [...buckets.keys()].sort((a, b) => a - b);
  const all = buckets.get(Number.POSITIVE_INFINITY) ?? 0;
  if (all === 0) return null;
  const wanted = part * all;
  let below = 0;
  let floor = 0;
  for (const edge of edges) {
    const upTo = buckets.get(edge) ?? 0;
    if (upTo >= wanted) {
      if (edge === Number.POSITIVE_INFINITY) return floor;
      return upTo === below ? edge : floor + ((edge - floor) * (wanted - below)) / (upTo - below);
    }
    below = upTo;
    floor = edge;
  }
  return floor;
}
