// The stories of the parts, by the names of the components.

import type { ComponentType } from "preact";
import { LARGE } from "./large.tsx";
import { SMALL } from "./small.tsx";

/** A part in its states, each a component. */
export type Stories = Readonly<Record<string, ComponentType>>;

export const STORIES: Readonly<Record<string, Stories>> = { ...LARGE, ...SMALL };

/** Parts without a story, and why. */
export const WITHOUT: Readonly<Record<string, string>> = {
  Guides: "drawn by Outline",
  FilterBar: "this page has one with filters of all kinds",
  Palette: "it reads names from the API",
  PasswordAgain: "it opens when the API asks for the password",
  TabPanel: "the story of Tabs shows it",
  Waits: "it draws nothing",
};
