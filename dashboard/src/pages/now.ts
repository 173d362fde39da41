// Routes of what happens now: overview, executions, trees, events, login.

import { shortId } from "../short_ids.ts";
import type { Route } from "../routes.ts";
import { EventPage } from "./event.tsx";
import { EventsPage } from "./events.tsx";
import { ExecutionPage } from "./execution.tsx";
import { ExecutionsPage } from "./executions.tsx";
import { LoginPage } from "./login.tsx";
import { OverviewPage } from "./overview.tsx";
import { TreePage } from "./tree.tsx";

const short = (id: string | undefined) => shortId(id ?? "");

export const nowRoutes: readonly Route[] = [
  { pattern: "/", nav: "overview", title: () => "Overview", page: OverviewPage },
  { pattern: "/executions", nav: "executions", title: () => "Executions", page: ExecutionsPage },
  {
    pattern: "/executions/:id",
    nav: "executions",
    title: ({ id }) => `Execution ${short(id)}`,
    page: ExecutionPage,
  },
  { pattern: "/trees/:root", nav: "executions", title: ({ root }) => `Tree ${short(root)}`, page: TreePage },
  { pattern: "/events", nav: "events", title: () => "Events", page: EventsPage },
  { pattern: "/events/:id", nav: "events", title: ({ id }) => `Event ${short(id)}`, page: EventPage },
  { pattern: "/login", title: () => "Log in", page: LoginPage, bare: true },
];
