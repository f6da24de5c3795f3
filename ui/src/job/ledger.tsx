// The ledger's row of a call: intent, outcome and receipt.

import type { JSX } from "preact";
import { Facts } from "../parts/common";
import { Foreign, Named } from "../parts/text";
import { clock, exact, iso } from "../text/times";
import { spaced } from "../text/words";

export interface LedgerRow {
  status?: string;
  attempt?: number;
  intent_seq?: number | null;
  result_seq?: number | null;
  start_by?: number | null;
  prepared_at?: number | null;
  settled_at?: number | null;
  approval_id?: string | null;
  [more: string]: unknown;
}

export function Ledger({ row }: { row: LedgerRow }): JSX.Element {
  return (
    <details class="named" open>
      <summary>
        Ledger <span class="dim">intent, outcome, receipt</span>
      </summary>
      <Facts
        facts={[
          ["status", row.status && <Foreign text={spaced(row.status)} most={40} />],
          ["intent recorded", <Moment at={row.prepared_at} seq={row.intent_seq} />],
          ["settled", <Moment at={row.settled_at} seq={row.result_seq} />],
          ["start by", <Moment at={row.start_by} />],
          ["sent", row.attempt !== undefined && row.attempt > 1 && `${row.attempt} times, under the same key`],
          ["approval", row.approval_id && <Foreign text={row.approval_id} most={60} />],
        ]}
      />
      <Named name="Full row" value={row} open={false} />
    </details>
  );
}

function Moment({ at, seq }: { at: number | null | undefined; seq?: number | null | undefined }): JSX.Element {
  if (!at) return <span class="dim">not yet</span>;
  return (
    <time dateTime={iso(at)} title={exact(at)}>
      {clock(at)}
      {seq ? <span class="dim"> event {seq}</span> : null}
    </time>
  );
}
