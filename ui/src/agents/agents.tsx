// Who is there: workers that drive jobs, agents that are hosted by them, agents that live elsewhere.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { usePoll } from "../core/polling";
import { href } from "../core/router";
import type { Agent, AgentEntry, Agents, JobRecord, Page, Worker } from "../core/types";
import { Command, Loading, Pill, Section, Trouble } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { fromIso } from "../text/times";
import { plural, type Tone } from "../text/words";
import { Heartbeats, note } from "./heartbeats";
import { WorkerRow } from "./worker";

export function AgentsPage(): JSX.Element {
  const workers = usePoll<Page<Worker>>("/api/workers?limit=200", 2000);
  const agents = usePoll<Agents>("/api/agents?limit=500", 3000);
  const running = usePoll<Page<JobRecord>>("/api/jobs?status=running&limit=200", 2500);
  for (const worker of workers.value?.items ?? []) note(worker.worker, worker.seen_at);
  const held = useMemo(() => heldBy(running.value?.items ?? []), [running.value]);
  const here = workers.value?.items ?? [];
  const elsewhere = agents.value?.agents.filter((one) => one.source !== "hosted") ?? [];
  for (const agent of elsewhere) note(agent.guid, fromIso(agent.lastHeartbeat) ?? 0);
  return (
    <>
      <h1>Agents and workers</h1>
      <Section
        title="Workers"
        aside={
          workers.value
            ? `${here.filter((one) => one.state === "here").length} running, ${plural(
                here.reduce((all, one) => all + one.holds, 0),
                "job",
              )} held`
            : ""
        }
      >
        {workers.problem && workers.value === null && <Trouble problem={workers.problem} again={workers.again} />}
        {workers.value === null && !workers.problem && <Loading what="workers" />}
        {workers.value && here.length === 0 && (
          <div class="empty">
            <p>
              <b>No worker is running.</b> Jobs wait until one starts: <Command text="holdfast worker app.py" /> or,
              together with the API, <Command text="holdfast up app.py" />
            </p>
          </div>
        )}
        <div class="workers">
          {here.map((worker) => (
            <WorkerRow key={worker.worker} worker={worker} jobs={held.get(worker.worker) ?? []} again={workers.again} />
          ))}
        </div>
      </Section>
      <Section title="Agents" aside="run by the workers above">
        {agents.problem && agents.value === null && <Trouble problem={agents.problem} again={agents.again} />}
        {agents.value && agents.value.items.length === 0 && (
          <div class="empty">
            <p>
              <b>No agent takes messages yet.</b> Create one: <Command text="holdfast agent create helper" />
            </p>
          </div>
        )}
        {agents.value && agents.value.items.length > 0 && <Hosted agents={agents.value.items} />}
      </Section>
      <Section title="External agents" aside={agents.value && <Registry registry={agents.value.registry} />}>
        {agents.value && elsewhere.length === 0 && (
          <p class="dim">No external agent is registered. Agents register with POST /api/agents/register and claim work by capability.</p>
        )}
        {elsewhere.length > 0 && <Elsewhere agents={elsewhere} />}
      </Section>
    </>
  );
}

function heldBy(jobs: readonly JobRecord[]): Map<string, JobRecord[]> {
  const found = new Map<string, JobRecord[]>();
  for (const job of jobs) {
    if (!job.worker) continue;
    const known = found.get(job.worker);
    if (known) known.push(job);
    else found.set(job.worker, [job]);
  }
  return found;
}

function Registry({ registry }: { registry: Agents["registry"] }): JSX.Element {
  const stale = registry.staleSince ? fromIso(registry.staleSince) : null;
  return (
    <>
      <Pill tone={registry.connected && stale === null ? "good" : "warn"}>
        registry: {registry.source}
        {registry.connected ? "" : ", not connected"}
      </Pill>
      {stale !== null && (
        <span class="warned">
          as last known <Ago at={stale} />
        </span>
      )}
      {registry.ignored > 0 && (
        <span class="warned">{plural(registry.ignored, "entry", "entries")} say nothing sensible</span>
      )}
    </>
  );
}

function Hosted({ agents }: { agents: readonly Agent[] }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            <th>agent</th>
            <th>kind</th>
            <th class="wide">model</th>
            <th class="wide">tools</th>
            <th>conversation</th>
            <th>jobs</th>
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => (
            <tr key={agent.agent_id}>
              <td>
                <b>
                  <Foreign text={agent.name} most={60} />
                </b>
                {agent.declared && <span class="dim small"> declared by code</span>}
              </td>
              <td class="dim">
                <Foreign text={agent.kind} most={40} />
              </td>
              <td class="wide dim">
                <Foreign text={agent.configuration?.model ?? (agent.declared ? "" : "scripted")} most={40} />
              </td>
              <td class="wide dim">
                <Foreign text={agent.configuration?.tools?.join(", ") ?? ""} most={60} />
              </td>
              <td>{agent.session_id && <a href={href(["sessions", agent.session_id])}>open</a>}</td>
              <td>
                <a href={href(["jobs"], agent.declared ? { kind: agent.kind } : { session_id: agent.session_id })}>
                  jobs
                </a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const TONES: Record<string, Tone> = { online: "good", busy: "busy", offline: "bad" };

function Elsewhere({ agents }: { agents: readonly AgentEntry[] }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            <th>agent</th>
            <th>status</th>
            <th class="wide">type</th>
            <th>capabilities</th>
            <th class="num">work</th>
            <th class="wide">heartbeats</th>
            <th class="num">last heartbeat</th>
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => {
            const heard = fromIso(agent.lastHeartbeat);
            return (
              <tr key={agent.guid}>
                <td title={agent.guid}>
                  <b>
                    <Foreign text={agent.handle} most={60} />
                  </b>
                </td>
                <td>
                  <Pill tone={TONES[agent.status] ?? "plain"}>{agent.status}</Pill>
                </td>
                <td class="wide dim">
                  <Foreign text={agent.agentType} most={30} />
                </td>
                <td>
                  <Foreign text={agent.capabilities.join(", ")} most={80} />
                </td>
                <td class="num">
                  {agent.currentTaskCount} of {agent.maxConcurrentTasks}
                </td>
                <td class="wide">
                  <Heartbeats who={agent.guid} every_us={agent.heartbeatIntervalMs * 1000} since={heard ?? 0} />
                </td>
                <td class="num">{heard !== null && <Ago at={heard} />}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
