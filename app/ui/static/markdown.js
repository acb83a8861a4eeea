// Markdown of answers as nodes. HTML in it is shown as the text it is, pictures are not fetched, and
// what the parser makes passes a sanitizer with a short list of elements before it is put anywhere.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const escaped = (text) =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const parser = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ text, href }) => escaped(`[picture: ${text || href}]`),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol",
    "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "start", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};

// `breaks`: whether a line's end is one on the page, as in what models write.
export function markdown(text, { breaks = true } = {}) {
  const fragment = DOMPurify.sanitize(parser.parse(text, { breaks }), ALLOWED);
  for (const anchor of fragment.querySelectorAll("a")) {
    anchor.rel = "noopener noreferrer nofollow";
    anchor.target = "_blank";
  }
  // Headings of an answer lie below those of the page.
  for (const heading of fragment.querySelectorAll("h1, h2, h3")) {
    const lower = document.createElement("h4");
    lower.append(...heading.childNodes);
    heading.replaceWith(lower);
  }
  for (const table of fragment.querySelectorAll("table, pre")) {
    table.tabIndex = 0;
  }
  return fragment;
}
