// Where the nodes of a plan lie.

import type { PlanNode } from "../core/types";

export const WIDE = 172;
export const HIGH = 44;
const GAP_X = 44;
const GAP_Y = 14;

interface Placed {
  node: PlanNode;
  x: number;
  y: number;
}

/** Columns by the longest way from the start, rows in the plan's own order. */
export function place(nodes: readonly PlanNode[]): { placed: Map<string, Placed>; width: number; height: number } {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const depths = new Map<string, number>();
  const depth = (name: string, seen: ReadonlySet<string>): number => {
    const known = depths.get(name);
    if (known !== undefined) return known;
    if (seen.has(name)) return 0; // no plan has a circle, but a page must not hang on one
    const before = (byName.get(name)?.after ?? []).filter((one) => byName.has(one));
    const found = before.length === 0 ? 0 : 1 + Math.max(...before.map((one) => depth(one, new Set([...seen, name]))));
    depths.set(name, found);
    return found;
  };
  const filled: number[] = [];
  const placed = new Map<string, Placed>();
  for (const node of nodes) {
    const column = depth(node.name, new Set());
    const row = filled[column] ?? 0;
    filled[column] = row + 1;
    placed.set(node.name, { node, x: column * (WIDE + GAP_X) + 2, y: row * (HIGH + GAP_Y) + 2 });
  }
  const columns = filled.length;
  const rows = Math.max(...filled.map((one) => one ?? 0), 1);
  return {
    placed,
    width: Math.max(columns, 1) * (WIDE + GAP_X) - GAP_X + 4,
    height: rows * (HIGH + GAP_Y) - GAP_Y + 4,
  };
}
