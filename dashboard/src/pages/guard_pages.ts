// The pages of sources, guards, administration, one's own settings, batches and the search.

export { ApprovalsPage } from "./approvals.tsx";
export { AuditPage } from "./audit.tsx";
export { BatchPage } from "./batch.tsx";
export { FindPage } from "./find.tsx";
export { HealthPage } from "./health.tsx";
export { MePage } from "./me.tsx";
export { PackPage, PacksPage } from "./packs.tsx";
export { PeoplePage } from "./people.tsx";
export { PersonPage } from "./person.tsx";
export { SecretsPage } from "./secrets.tsx";
export { QueuePage, SchedulePage, WatchPage, WebhookPage } from "./source.tsx";
export { NewQueuePage, NewSchedulePage, NewWatchPage, NewWebhookPage } from "./source_form.tsx";
export { QueuesPage, SchedulesPage, WatchesPage, WebhooksPage } from "./sources.tsx";
export { SuppressionsPage } from "./suppressions.tsx";
