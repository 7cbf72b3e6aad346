// View of one user: usage and limits by queue, over time, and applications.
import { UsageHistory } from "../parts/history";
import { Section, Trouble } from "../parts/states";
import { Table } from "../parts/table";
import { useTypes } from "../parts/types";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Queue, Usage, User } from "../rest/types";
import { to, useQuery } from "../routes";
import { type Place, usageColumns } from "./queues";
import { openRows } from "./tree";

/** Most rows of queues. */
const MOST_ROWS = 200;

export function UserView() {
  const [{ name = "" }] = useQuery();
  const of = base.value;
  const read = usePolled<User>(of && name && `${of}/usage/user/${encodeURIComponent(name)}`, 3);
  return (
    <>
      <Trouble of={read} missing={`No user is called ${name}: nobody of this name uses anything, has an application, or is named by a limit.`} />
      {read.data && (
        <>
          <Queues of={read.data} />
          <UsageHistory kind="user" name={name} />
        </>
      )}
    </>
  );
}

/** Rows of all queues in which a user has anything. */
const rowsOf = (name: string, usage: Usage): Place[] => [{ kind: "user", name, usage }, ...(usage.children ?? []).flatMap((child) => rowsOf(name, child))];

function Queues({ of: { userName, queues } }: { of: User }) {
  const tree = usePolled<Queue>(base.value && `${base.value}/queues`, 10);
  const { names: types } = useTypes(tree.data);
  const limits = new Map(tree.data ? openRows(tree.data, () => false).map((row) => [row.queue.queuename, row.limits]) : []);
  const whole = (queue: string) => limits.get(queue) ?? partition.value?.capacity.capacity ?? {};
  const rows = rowsOf(userName, queues);
  return (
    <Section
      title="Queues"
      id="usage"
      class="wide"
      note="What the user has in each queue and below it, and may have by a limit of that queue."
      side={<a href={to("applications", { user: userName })}>Applications</a>}
    >
      <Table caption="Queues with what the user uses and its limits" columns={usageColumns(types, whole).slice(1)} rows={rows.slice(0, MOST_ROWS)} keyOf={(row) => row.usage.queuePath} />
      {rows.length > MOST_ROWS && <p class="none">and {rows.length - MOST_ROWS} more</p>}
    </Section>
  );
}
