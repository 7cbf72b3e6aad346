// Whether the system wants the page dark: what is drawn on a canvas has to be drawn again.
import { signal } from "@preact/signals";

const wanted = matchMedia("(prefers-color-scheme: dark)");

export const dark = signal(wanted.matches);

wanted.addEventListener("change", (event) => {
  dark.value = event.matches;
});
