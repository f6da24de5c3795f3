// A page that breaks says so, and does not take the way to the others with it.

import { Component, type ComponentChildren, type JSX } from "preact";
import { Trouble } from "./common";

interface ErrorBoundaryProps {
  /** Another place is another try. */
  place: string;
  children: ComponentChildren;
}

interface ErrorBoundaryState {
  broke: { place: string; what: string } | null;
}

export class ErrorBoundary extends Component<ErrorBoundaryProps, ErrorBoundaryState> {
  override state: ErrorBoundaryState = { broke: null };

  override componentDidCatch(error: unknown): void {
    const what = error instanceof Error ? error.message : String(error);
    console.error(error);
    this.setState({ broke: { place: this.props.place, what } });
  }

  override render(): JSX.Element {
    const { broke } = this.state;
    if (broke === null || broke.place !== this.props.place) return <>{this.props.children}</>;
    return (
      <>
        <h1>This page has failed</h1>
        <Trouble
          problem={{
            status: -1,
            code: "page",
            title: "Error in the page",
            detail: broke.what,
            hint: "The command line shows the same: `holdfast jobs --person`, `holdfast jobs`, `holdfast trace ID`. Please report the error.",
          }}
          again={() => this.setState({ broke: null })}
        />
      </>
    );
  }
}
