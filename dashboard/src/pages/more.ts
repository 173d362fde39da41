// The pages that the first load leaves out.

import { later } from "../parts/later.tsx";

export const page = later(() => import("./more_pages.ts"));
