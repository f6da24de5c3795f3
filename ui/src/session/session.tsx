// A session: the conversation as people read it, with what is being said right now.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { at } from "../core/api";
import { usePoll } from "../core/polling";
import { useJobsPoll } from "../core/job_feed";
import { href, usePlace } from "../core/router";
import type { Agent, Agents, Batch, Job, JobRecord, Page, Session } from "../core/types";
import { Copy, Facts, JobLink, Loading, Section, State, Trouble } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { count, isOver, plural } from "../text/words";
import { Attachments } from "./attachments";
import { Composer } from "./composer";
import { Conversation } from "./conversation";
import { Inbox } from "./inbox";
import { pathTo } from "./nodes";
import { Branches } from "./tree";

export function SessionPage({ id }: { id: string }): JSX.Element {
  const { query } = usePlace();
  const session = useJobsPoll<Session>(at`/api/sessions/${id}?graph=full`, 2500);
  const inbox = useJobsPoll<{ items: readonly Batch[] }>(at`/api/sessions/${id}/inbox`, 2000);
  const jobs = useJobsPoll<Page<JobRecord>>(`/api/jobs${href([], { session_id: id, limit: 20 }).slice(1)}`, 2000);
  const turn =
    jobs.value?.items.find((job) => job.status === "running") ??
    jobs.value?.items.find((job) => job.status === "waiting" && job.wait_reason !== "joined");
  const leaf = query.get("leaf") ?? session.value?.leaf_node_id ?? null;
  const path = useMemo(() => (session.value ? pathTo(session.value, leaf) : []), [session.value, leaf]);
  const agent = useAgent(id, jobs.value?.items[0] ?? null);
  const missing = session.problem?.status === 404;
  if (session.value === null && !session.problem) return <Loading what="the session" />;
  if (session.problem && !missing && session.value === null) {
    return (
      <>
        <h1>The session cannot be shown</h1>
        <Trouble problem={session.problem} again={session.again} />
      </>
    );
  }
  const isActive = session.value === null || leaf === session.value.leaf_node_id;
  return (
    <>
      <header class="job-head">
        <h1>{agent ? <Foreign text={agent.name} most={80} /> : "Session"}</h1>
        <p class="mono small dim id">
          <Foreign text={id} most={255} /> <Copy text={id} what="id" />
        </p>
        {session.value && <Head session={session.value} />}
      </header>
      <div class="life">
        <div class="life-main">
          {!isActive && (
            <p class="slider past row">
              This is not the active branch. <a href={href(["sessions", id])}>Show the active one</a>
            </p>
          )}
          {missing && <p class="dim">The session starts with its first turn.</p>}
          <Conversation path={path} turn={isActive ? (turn ?? null) : null} frames={session.value?.frames ?? []} />
          {agent && isActive && <Composer agent={agent.agent_id} sessionId={id} busy={turn !== undefined} />}
        </div>
        <aside class="side">
          <Inbox sessionId={id} batches={inbox.value?.items ?? []} again={inbox.again} />
          <Section title="Turns" aside={<a href={href(["jobs"], { session_id: id })}>all</a>}>
            <ul class="plain">
              {(jobs.value?.items ?? []).slice(0, 8).map((job) => (
                <li key={job.job_id} class="row">
                  <State status={job.status} reason={isOver(job.status) ? null : job.wait_reason} />
                  <JobLink id={job.job_id} />
                  <Ago at={job.created_at} class="dim small" />
                </li>
              ))}
            </ul>
          </Section>
          {session.value && <Branches session={session.value} leaf={leaf} />}
          {session.value && <Used session={session.value} />}
          <Attachments sessionId={id} />
        </aside>
      </div>
    </>
  );
}

/** Whose conversation it is: the agent that has it for its own, or the one that its last message names. */
function useAgent(sessionId: string, last: JobRecord | null): Agent | undefined {
  const agents = usePoll<Agents>("/api/agents?limit=500", 30_000).value?.items;
  const own = agents?.find((one) => one.session_id === sessionId);
  const job = usePoll<Job>(own === undefined && last !== null ? at`/api/jobs/${last.job_id}` : null, null).value;
  if (own !== undefined || last === null) return own;
  const named =
    typeof job?.input === "object" && job.input !== null ? (job.input as Record<string, unknown>).agent : null;
  return agents?.find((one) => (one.declared ? one.kind === last.kind : one.agent_id === named));
}

function Head({ session }: { session: Session }): JSX.Element {
  return (
    <Facts
      facts={[
        ["revision", count(session.revision)],
        ["nodes", count(session.nodes.length)],
        ["frames", session.frames.length > 0 && plural(session.frames.length, "frame")],
      ]}
    />
  );
}

function Used({ session }: { session: Session }): JSX.Element | null {
  const totals = useMemo(() => {
    const found = new Map<string, { model: string; input: number; output: number; turns: number }>();
    for (const one of session.usage) {
      const known = found.get(one.model) ?? { model: one.model, input: 0, output: 0, turns: 0 };
      found.set(one.model, {
        ...known,
        input: known.input + one.input_tokens,
        output: known.output + one.output_tokens,
        turns: known.turns + 1,
      });
    }
    return [...found.values()];
  }, [session]);
  if (totals.length === 0) return null;
  return (
    <Section title="Usage">
      <ul class="plain">
        {totals.map((one) => (
          <li key={one.model}>
            <Foreign text={one.model} most={60} />{" "}
            <span class="dim small">
              {count(one.input)} + {count(one.output)} tokens in {plural(one.turns, "answer")}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
