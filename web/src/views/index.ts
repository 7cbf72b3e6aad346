// All views: address, title, and description.
import type { ComponentType } from "preact";
import { isInCluster } from "../rest/membership";
import { ApplicationView } from "./application";
import { Applications } from "./applications";
import { Decisions } from "./decisions";
import { Events } from "./events";
import { NodeView } from "./node";
import { Members } from "./members";
import { Nodes } from "./nodes";
import { Overview } from "./overview";
import { QueueView } from "./queue";
import { Queues } from "./queues";
import { Sessions } from "./sessions";
import { UserView } from "./user";
import { WhatIf } from "./whatif";

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
  /** Whether only members of a cluster have the view. */
  needsCluster?: boolean;
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
    says: "Requests of resource managers are placed on their nodes, queue by queue. This is what is placed, what waits, and why.",
    key: "o",
    show: Overview,
  },
  {
    ...of("applications"),
    name: "Applications",
    title: "Applications",
    says: "An application is a job with requests for containers. Each is in one queue, and waits there until it is its turn and there is room.",
    key: "a",
    show: Applications,
  },
  {
    ...of("application"),
    title: "Application",
    says: "Its allocations, its pending requests and why they wait, and its states so far.",
    nav: "/ui/applications",
    subject: (query) => query.id,
    show: ApplicationView,
  },
  {
    ...of("queues"),
    name: "Queues",
    title: "Queues",
    says: "Queues share the cluster: each may have a guarantee and a maximum, and limits for users and groups.",
    key: "q",
    show: Queues,
  },
  {
    ...of("queue"),
    title: "Queue",
    says: "Its limits and usage, its applications and users, and the rules of its order.",
    nav: "/ui/queues",
    subject: (query) => query.path,
    show: QueueView,
  },
  {
    ...of("user"),
    title: "User",
    says: "What the user has in each queue, now and over time.",
    nav: "/ui/queues",
    subject: (query) => query.name,
    show: UserView,
  },
  {
    ...of("nodes"),
    name: "Nodes",
    title: "Nodes",
    says: "The machines of the cluster, and how full each is.",
    key: "n",
    show: Nodes,
  },
  {
    ...of("node"),
    title: "Node",
    says: "Its allocations and reservations, and requests that it could not take.",
    nav: "/ui/nodes",
    subject: (query) => query.id,
    show: NodeView,
  },
  {
    ...of("decisions"),
    name: "Decisions",
    title: "Decisions",
    says: "Allocations, reservations and evictions, each with the rule that put one before the other.",
    key: "d",
    show: Decisions,
  },
  {
    ...of("events"),
    name: "Events",
    title: "Events",
    says: "Changes of applications, nodes, queues and users, as they happen.",
    key: "e",
    needsPartition: false,
    show: Events,
  },
  {
    ...of("whatif"),
    name: "What if",
    title: "What if",
    says: "What would happen with another queue configuration: what is evicted, what starts earlier or later, and what never does.",
    key: "w",
    show: WhatIf,
  },
  {
    ...of("sessions"),
    name: "Sessions",
    title: "Sessions",
    says: "Connected resource managers: each has one session, and keeps it when its connection is lost for a moment.",
    key: "s",
    needsPartition: false,
    show: Sessions,
  },
  {
    ...of("members"),
    name: "Members",
    title: "Members",
    says: "The processes that are one scheduler, and the resource managers that each serves.",
    key: "m",
    needsPartition: false,
    needsCluster: true,
    show: Members,
  },
];

/** Views that are named in the list of views. */
export const listed = (): View[] => VIEWS.filter((view) => view.name && (!view.needsCluster || isInCluster.value));

/** Title and text of an unknown address. */
export const UNKNOWN: View = {
  id: "",
  path: "",
  title: "Not found",
  says: "There is no view at this address. The views are named above.",
  needsPartition: false,
  show: () => null,
};
