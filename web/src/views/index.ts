// All views: address, title, and description.
import type { ComponentType } from "preact";
import { ApplicationView } from "./application";
import { Applications } from "./applications";
import { Decisions } from "./decisions";
import { Events } from "./events";
import { NodeView } from "./node";
import { Nodes } from "./nodes";
import { Overview } from "./overview";
import { QueueView } from "./queue";
import { Queues } from "./queues";
import { Sessions } from "./sessions";

export interface View {
  id: string;
  path: string;
  /** Label in the list of views; views without one are reached from a row. */
  name?: string;
  title: string;
  says: string;
  /** Key pressed after `g`. */
  key?: string;
  /** The view whose rows lead here. */
  nav?: string;
  needsPartition: boolean;
  /** Name of the object on display. */
  subject?: (query: Record<string, string>) => string | undefined;
  show: ComponentType;
}

const of = (id: string): Pick<View, "id" | "path" | "needsPartition"> => ({ id, path: `/ui/${id}`, needsPartition: true });

export const VIEWS: View[] = [
  {
    ...of("overview"),
    path: "/",
    name: "Overview",
    title: "Overview",
    says: "Resource managers report nodes and ask for room; what they ask for is placed, queue by queue. This is what is placed, and what waits.",
    key: "o",
    show: Overview,
  },
  {
    ...of("applications"),
    name: "Applications",
    title: "Applications",
    says: "An application is a job with requests for containers. Each lives in one queue, and waits there until it is its turn and there is room.",
    key: "a",
    show: Applications,
  },
  {
    ...of("application"),
    title: "Application",
    says: "What it has, what it waits for and why, and how it came here.",
    nav: "/ui/applications",
    subject: (query) => query.id,
    show: ApplicationView,
  },
  {
    ...of("queues"),
    name: "Queues",
    title: "Queues",
    says: "Queues share the cluster out: each has a part that is guaranteed and a most that it may use, and so may users and groups within it.",
    key: "q",
    show: Queues,
  },
  {
    ...of("queue"),
    title: "Queue",
    says: "What it may use, what it uses, who uses it, and by which rules it chooses who is next.",
    nav: "/ui/queues",
    subject: (query) => query.path,
    show: QueueView,
  },
  {
    ...of("nodes"),
    name: "Nodes",
    title: "Nodes",
    says: "The machines of the cluster, and how much of each is taken.",
    key: "n",
    show: Nodes,
  },
  {
    ...of("node"),
    title: "Node",
    says: "What runs on it, for whom it is kept, and whom it was no place for.",
    nav: "/ui/nodes",
    subject: (query) => query.id,
    show: NodeView,
  },
  {
    ...of("decisions"),
    name: "Decisions",
    title: "Decisions",
    says: "Who was placed, kept a place for, or had to leave, and which rule put one before the other.",
    key: "d",
    show: Decisions,
  },
  {
    ...of("events"),
    name: "Events",
    title: "Events",
    says: "What happens to applications, nodes, queues and users, as it happens.",
    key: "e",
    needsPartition: false,
    show: Events,
  },
  {
    ...of("sessions"),
    name: "Sessions",
    title: "Sessions",
    says: "The resource managers that speak to this service: each has one session, and keeps it when its connection is lost for a moment.",
    key: "s",
    needsPartition: false,
    show: Sessions,
  },
];

/** Title and text of an unknown address. */
export const UNKNOWN: View = {
  id: "",
  path: "",
  title: "Not found",
  says: "There is no view at this address. Those that are there are named above.",
  needsPartition: false,
  show: () => null,
};
