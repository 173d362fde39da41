// One chunk: the parts that pages share would be chunks of their own beside several, and compress less well.

export * from "./agent_pages.ts";
export * from "./build_pages.ts";
export * from "./guard_pages.ts";
