// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestEveryLinkLeadsToAPageAndAHeading checks that every link between pages of this repository
// leads to a page and a heading that exist.
func TestEveryLinkLeadsToAPageAndAHeading(t *testing.T) {
	t.Parallel()
	pages := markdownPages(t)
	if len(pages) < 10 {
		t.Fatalf("%d pages, want at least 10: %v", len(pages), pages)
	}
	// introduction.md is a part of the API page, and links to pages of the running service.
	// TestIntroductionIsShort of adapters/httpapi checks these links.
	delete(pages, "adapters/httpapi/openapi/introduction.md")
	for path, text := range pages {
		for _, problem := range linkProblems(path, text) {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()
	const pageHead = "# The head: of `it`\n\n## Twice\n\n## Twice\n\n"
	for _, valid := range []string{"[a](architecture.md)", "[a](#the-head-of-it)", "[a](#twice-1)", "[a](../README.md#two-commands)",
		"[a](https://example.com/x.md)", "`[a](nowhere.md)`", "```\n[a](nowhere.md)\n```\n", "[a](decisions)", "`core/fault/codes.go`"} {
		if found := linkProblems("docs/page.md", pageHead+valid); len(found) > 0 {
			t.Errorf("the valid link %s has the reports %v, want none", valid, found)
		}
	}
	for _, broken := range []string{"[a](nowhere.md)", "[a](#nowhere)", "[a](../README.md#nowhere)", "[a](/architecture.md)", "[a][b]\n\n[b]: nowhere.md\n", "`core/fault/nowhere.go`"} {
		if found := linkProblems("docs/page.md", pageHead+broken); len(found) != 1 {
			t.Errorf("the broken link %s has the reports %v, want one", broken, found)
		}
	}
}

// markdownPages returns the text of the Markdown files, except those of testdata and of installed
// packages, keyed by path from the root of the repository.
func markdownPages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git" || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(filepath.ToSlash(path), "../")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	codeBlock   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)|(?m:^\[[^\]]+\]: (\S+))`)
	fileName    = regexp.MustCompile("`((?:[a-z0-9_.-]+/)+[a-z0-9_.-]+\\.(?:go|md))`")
	externalURL = regexp.MustCompile(`^[a-z]+:`)
	heading     = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// linkProblems returns a message for each broken link of a page. It also returns a message for each
// path in backquotes of a .go or .md file that does not exist. It checks only paths with a slash
// and without upper-case letters.
func linkProblems(path, text string) []string {
	var problems []string
	text = codeBlock.ReplaceAllString(text, "")
	for _, name := range fileName.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", name[1])); err != nil {
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(path), name[1])); err != nil {
				problems = append(problems, "names "+name[1]+", which does not exist")
			}
		}
	}
	for _, link := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
		target := link[1] + link[2]
		if externalURL.MatchString(target) {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		targetPath, page := path, text
		if file != "" {
			targetPath = filepath.Join(filepath.Dir(path), file)
			raw, err := os.ReadFile(filepath.Join("..", targetPath))
			if info, statErr := os.Stat(filepath.Join("..", targetPath)); statErr != nil || strings.HasPrefix(file, "/") || err != nil && !info.IsDir() {
				problems = append(problems, "links to "+target+", which does not exist")
				continue
			}
			page = codeBlock.ReplaceAllString(string(raw), "")
		}
		if anchor != "" && !anchors(page)[anchor] {
			problems = append(problems, "links to "+target+", but "+targetPath+" has no such heading")
		}
	}
	return problems
}

// anchors returns the anchors that GitHub generates for the headings of a page.
func anchors(page string) map[string]bool {
	names, headingsWithName := map[string]bool{}, map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, linkText.ReplaceAllString(strings.TrimSpace(match[1]), "$1"))
		if earlier := headingsWithName[name]; earlier > 0 {
			names[name+"-"+strconv.Itoa(earlier)] = true
		} else {
			names[name] = true
		}
		headingsWithName[name]++
	}
	return names
}

// TestEveryTestThatAPageNamesExists checks each name of a test that a page has in backquotes.
func TestEveryTestThatAPageNamesExists(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", "..", "grep", "-hoE", "--untracked", "^func Test[A-Za-z0-9_]+", "--", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	existingTests := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		existingTests[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	named := 0
	for path, text := range markdownPages(t) {
		for _, name := range regexp.MustCompile("`(Test[A-Z][A-Za-z0-9_]+)`").FindAllStringSubmatch(text, -1) {
			if named++; !existingTests[name[1]] {
				t.Errorf("%s names %s, which does not exist", path, name[1])
			}
		}
	}
	if named < 40 {
		t.Errorf("the pages name only %d tests, want at least 40", named)
	}
}
