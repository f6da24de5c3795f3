// A plan as a graph: dependencies and state of its nodes.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Plan } from "../core/types";
import { Section } from "../parts/common";
import { line, visible } from "../text/visible";
import { HIGH, WIDE, place } from "./plan_layout";
import { type Tone, outcomeTone, spaced } from "../text/words";

const toneOf = (state: string): Tone => (state === "to come" || state === "not reached" ? "quiet" : outcomeTone(state));

export function PlanView({ plan, choose }: { plan: Plan; choose(node: string): void }): JSX.Element {
  const { placed, width, height } = useMemo(() => place(plan.nodes), [plan]);
  const done = plan.nodes.filter((node) => node.state === "succeeded").length;
  return (
    <Section title="Plan" aside={`${done} of ${plan.nodes.length} done`}>
      {plan.nodes.length === 0 ? (
        <p class="dim">The nodes are not available: they were erased, or recorded by another version.</p>
      ) : (
        <div class="plan sheet">
          <svg
            width={width}
            height={height}
            viewBox={`0 0 ${width} ${height}`}
            role="group"
            aria-label={`A plan of ${plan.nodes.length} nodes, ${done} done`}
          >
            {[...placed.values()].flatMap(({ node, x, y }) =>
              node.after.flatMap((name) => {
                const from = placed.get(name);
                if (!from) return [];
                const startX = from.x + WIDE;
                const startY = from.y + HIGH / 2;
                const endY = y + HIGH / 2;
                const bend = Math.max((x - startX) / 2, 16);
                return [
                  <path
                    key={`${name} ${node.name}`}
                    class={`edge ${toneOf(from.node.state)}`}
                    d={`M${startX} ${startY}C${startX + bend} ${startY} ${x - bend} ${endY} ${x} ${endY}`}
                  />,
                ];
              }),
            )}
            {[...placed.values()].map(({ node, x, y }) => (
              <g
                key={node.name}
                class={`node ${toneOf(node.state)}`}
                transform={`translate(${x} ${y})`}
                tabindex={0} // as SVG spells it
                role="button"
                onClick={() => choose(node.name)}
                onKeyDown={(event) => event.key === "Enter" && choose(node.name)}
              >
                <title>
                  {visible(
                    `${node.name}: ${node.tool}, ${node.state}${node.after.length ? `, after ${node.after.join(", ")}` : ""}`,
                  )}
                </title>
                <rect width={WIDE} height={HIGH} rx={6} />
                <text x={12} y={18} class="name">
                  {line(node.name, 22)}
                </text>
                <text x={12} y={35} class="tool">
                  {line(node.tool, 14)} · {spaced(node.state)}
                </text>
              </g>
            ))}
          </svg>
        </div>
      )}
    </Section>
  );
}
