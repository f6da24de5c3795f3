// A conversation's graph: who said what, and where it branches.

import type { Session, SessionNode } from "../core/types";
import { contentOf } from "../job/messages";
import { pretty } from "../text/exact";

export interface Saying {
  role: string;
  text: string;
  /** The whole content of the node. */
  raw: unknown;
}

/** What a node says, as people read it. */
export function sayingOf(node: SessionNode): Saying {
  const body = node.body;
  if (typeof body !== "object" || body === null)
    return { role: "note", text: typeof body === "string" ? body : pretty(body), raw: body };
  const { message, input, kind } = body as Record<string, unknown>;
  if (typeof message === "object" && message !== null) {
    const { role, content } = message as Record<string, unknown>;
    return { role: typeof role === "string" ? role : "message", text: contentOf(content), raw: body };
  }
  if (input !== undefined) {
    const content =
      typeof input === "object" && input !== null && "content" in input
        ? (input as Record<string, unknown>).content
        : input;
    return {
      role: kind === "message" || kind === undefined ? "user" : String(kind),
      text: contentOf(content),
      raw: body,
    };
  }
  return { role: typeof kind === "string" ? kind : "note", text: pretty(body), raw: body };
}

/** The nodes from the root to this one. */
export function pathTo(session: Session, leaf: string | null): SessionNode[] {
  const byId = new Map(session.nodes.map((node) => [node.node_id, node]));
  const path: SessionNode[] = [];
  const seen = new Set<string>();
  for (let at = leaf; at !== null && !seen.has(at);) {
    const node = byId.get(at);
    if (node === undefined) break;
    seen.add(at);
    path.push(node);
    at = node.parent_node_id;
  }
  return path.reverse();
}

export interface Branch {
  /** The first node of the stretch and its last one: between them nothing branches. */
  first: SessionNode;
  leaf: SessionNode;
  length: number;
  depth: number;
}

/** The tree as stretches without a fork, in the order in which they were written. */
export function branchesOf(session: Session): Branch[] {
  const children = new Map<string | null, SessionNode[]>();
  const ids = new Set(session.nodes.map((node) => node.node_id));
  for (const node of session.nodes) {
    const parent = node.parent_node_id !== null && ids.has(node.parent_node_id) ? node.parent_node_id : null;
    const known = children.get(parent);
    if (known) known.push(node);
    else children.set(parent, [node]);
  }
  const found: Branch[] = [];
  const walk: { node: SessionNode; depth: number }[] = (children.get(null) ?? [])
    .map((node) => ({ node, depth: 0 }))
    .reverse();
  for (let next = walk.pop(); next !== undefined; next = walk.pop()) {
    let leaf = next.node;
    let length = 1;
    let below = children.get(leaf.node_id) ?? [];
    while (below.length === 1) {
      leaf = below[0] as SessionNode;
      length += 1;
      below = children.get(leaf.node_id) ?? [];
    }
    found.push({ first: next.node, leaf, length, depth: next.depth });
    const { depth } = next;
    walk.push(...below.map((node) => ({ node, depth: depth + 1 })).reverse());
  }
  return found;
}
