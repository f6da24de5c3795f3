// Which page the address names.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { usePlace } from "./core/router";
import { AgentsPage } from "./agents/agents";
import { Home } from "./home/home";
import { JobPage } from "./job/job";
import { JobsPage } from "./jobs/jobs";
import { MetricsPage } from "./metrics/metrics";
import { ErrorBoundary } from "./parts/error_boundary";
import { Shell } from "./parts/shell";
import { SessionPage } from "./session/session";
import { SessionsPage } from "./session/sessions";
import { visible } from "./text/visible";

export function App(): JSX.Element {
  const { path } = usePlace();
  const [first, second] = path;
  useEffect(() => {
    const name = second ?? (first ? first[0]?.toUpperCase() + first.slice(1) : "Needs attention");
    document.title = `${visible(name ?? "")} · Holdfast`;
  }, [first, second]);
  return (
    <Shell>
      <ErrorBoundary place={path.join("/")}>{chosen(path)}</ErrorBoundary>
    </Shell>
  );
}

function chosen(path: readonly string[]): JSX.Element {
  const [first, second, third] = path;
  if (first === undefined) return <Home />;
  if (third === undefined) {
    if (first === "jobs") return second === undefined ? <JobsPage /> : <JobPage key={second} id={second} />;
    if (first === "sessions") return second === undefined ? <SessionsPage /> : <SessionPage key={second} id={second} />;
    if (first === "agents" && second === undefined) return <AgentsPage />;
    if (first === "dashboard" && second === undefined) return <MetricsPage />;
  }
  return (
    <section>
      <h1>Page not found</h1>
      <p>
        <a href="/">Needs attention</a>, <a href="/jobs">jobs</a>, <a href="/agents">agents and workers</a>,{" "}
        <a href="/dashboard">metrics</a>.
      </p>
    </section>
  );
}
