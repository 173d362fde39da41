// Routes of what happens now: overview, executions, trees, events, login.

import { firstPage } from "../lists.ts";
import { chosenFilters } from "../parts/filter_bar.tsx";
import { place } from "../router.ts";
import type { Route } from "../routes.ts";
import { shortId } from "../short_ids.ts";
import { asksList, asksOne } from "./asks.ts";
import { EventPage } from "./event.tsx";
import { EventsPage } from "./events.tsx";
import { ExecutionPage } from "./execution.tsx";
import { ExecutionsPage, filtersOfExecutions } from "./executions.tsx";
import { LoginPage } from "./login.tsx";
import { OverviewPage } from "./overview.tsx";
import { asksTree, TreePage } from "./tree.tsx";

const short = (id: string | undefined) => shortId(id ?? "");

export const nowRoutes: readonly Route[] = [
  { pattern: "/", nav: "overview", title: () => "Overview", page: OverviewPage, asks: () => [["/overview"]] },
  {
    pattern: "/executions",
    nav: "executions",
    title: () => "Executions",
    page: ExecutionsPage,
    asks: () => [firstPage("/executions", chosenFilters(filtersOfExecutions()))],
  },
  {
    pattern: "/executions/:id",
    nav: "executions",
    title: ({ id }) => `Execution ${short(id)}`,
    page: ExecutionPage,
    // The trace is the tab that an address without one shows.
    asks: (params) => (place.value.query.has("tab") ? asksOne("executions") : asksOne("executions", "trace"))(params),
  },
  {
    pattern: "/trees/:root",
    nav: "executions",
    title: ({ root }) => `Tree ${short(root)}`,
    page: TreePage,
    asks: asksTree,
  },
  { pattern: "/events", nav: "events", title: () => "Events", page: EventsPage, asks: asksList("/events") },
  {
    pattern: "/events/:id",
    nav: "events",
    title: ({ id }) => `Event ${short(id)}`,
    page: EventPage,
    asks: asksOne("events", "decisions"),
  },
  { pattern: "/login", title: () => "Log in", page: LoginPage, bare: true, asks: () => [["/login"]] },
];
