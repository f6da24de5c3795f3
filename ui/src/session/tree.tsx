// The branches of a conversation. One of them is active; the others were left, and are kept.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { href } from "../core/router";
import type { Session } from "../core/types";
import { Section } from "../parts/common";
import { Foreign } from "../parts/text";
import { plural } from "../text/words";
import { branchesOf, pathTo, sayingOf } from "./nodes";

const SHOWN_MAX = 60;

export function Branches({ session, leaf }: { session: Session; leaf: string | null }): JSX.Element | null {
  const branches = useMemo(() => branchesOf(session), [session]);
  const onPath = useMemo(() => new Set(pathTo(session, leaf).map((node) => node.node_id)), [session, leaf]);
  const active = new Set(session.active_path);
  if (branches.length < 2) return null;
  return (
    <Section title="Branches" aside={plural(branches.length, "segment")}>
      <ul class="plain tree">
        {branches.slice(0, SHOWN_MAX).map((branch) => (
          <li
            key={branch.first.node_id}
            style={{ marginLeft: `${branch.depth * 14}px` }}
            class={onPath.has(branch.first.node_id) ? "on" : ""}
          >
            <a
              href={href(["sessions", session.session_id], {
                leaf: branch.leaf.node_id === session.leaf_node_id ? null : branch.leaf.node_id,
              })}
              aria-current={branch.leaf.node_id === leaf ? "true" : undefined}
            >
              <Foreign text={sayingOf(branch.first).text || "…"} most={48} />
            </a>{" "}
            <span class="dim small">
              {plural(branch.length, "entry", "entries")}
              {active.has(branch.first.node_id) ? " · active" : ""}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
