// Routes of sources, guards, administration, one's own settings, batches and the search.

import type { Route } from "../routes.ts";
import { shortId } from "../short_ids.ts";
import { page } from "./more.ts";

const SOURCES = [
  { path: "schedules", title: "Schedules", one: "schedule", name: "Schedule" },
  { path: "watches", title: "Watches", one: "watch", name: "Watch" },
  { path: "webhooks", title: "Webhooks", one: "webhook", name: "Webhook" },
  { path: "queues", title: "Queues", one: "queue", name: "Queue" },
] as const;

export const guardRoutes: readonly Route[] = [
  ...SOURCES.flatMap(({ path, title, one, name }): Route[] => [
    { pattern: `/${path}`, nav: path, title: () => title, page: page(`${title}Page`) },
    { pattern: `/new/${one}`, nav: path, title: () => `New ${one}`, page: page(`New${name}Page`) },
    { pattern: `/${path}/:name`, nav: path, title: (of) => of["name"] ?? "", page: page(`${name}Page`) },
  ]),
  { pattern: "/suppressions", nav: "suppressions", title: () => "Suppressions", page: page("SuppressionsPage") },
  { pattern: "/approvals", nav: "approvals", title: () => "Approvals", page: page("ApprovalsPage") },
  { pattern: "/secrets", nav: "secrets", title: () => "Secrets", page: page("SecretsPage") },
  { pattern: "/packs", nav: "packs", title: () => "Packs", page: page("PacksPage") },
  { pattern: "/packs/:name", nav: "packs", title: ({ name }) => name ?? "", page: page("PackPage") },
  { pattern: "/people", nav: "people", title: () => "People", page: page("PeoplePage") },
  { pattern: "/people/:name", nav: "people", title: ({ name }) => name ?? "", page: page("PersonPage") },
  {
    pattern: "/batches/:id",
    nav: "executions",
    title: ({ id }) => `Batch ${shortId(id ?? "")}`,
    page: page("BatchPage"),
  },
  { pattern: "/find/:text", title: ({ text }) => `Find ${text ?? ""}`, page: page("FindPage") },
  { pattern: "/me", title: () => "Me", page: page("MePage") },
  { pattern: "/audit", nav: "audit", title: () => "Audit", page: page("AuditPage") },
  { pattern: "/health", nav: "health", title: () => "Health", page: page("HealthPage") },
];
