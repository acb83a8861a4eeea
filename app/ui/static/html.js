// Markup in template strings: what stands in ${…} becomes text or attributes, never markup.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
