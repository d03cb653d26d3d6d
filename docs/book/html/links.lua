-- Links of one chapter to another lead to its page; links out of the book, to the repository. Headings have the names that forges give them.
local root = os.getenv("BOOK_ROOT") or ""
local repository = os.getenv("BOOK_REPOSITORY") or ""
local current = os.getenv("BOOK_PAGE") or ""

function Link(link)
  local target = link.target
  if target:match("^%a+:") or target:match("^#") then return nil end
  local outside = target:match("^%.%./%.%./(.*)") or (target:match("^%.%./VM%.md") and "docs/VM.md")
  if outside and root == "" then
    link.target = repository .. "/blob/main/" .. outside
    return link
  end
  target = target:gsub("README%.md", "index.html"):gsub("%.md", ".html")
  -- The list of chapters is written from the top of the book.
  if os.getenv("BOOK_NAV") then
    if target == current then link.attributes["aria-current"] = "page" end
    target = root .. target
  end
  link.target = target
  return link
end
