// Linkcheck runs in the root of a repository. It fails if a relative link or an anchor in the
// named Markdown files does not exist. Links to other hosts are not followed, so the result does
// not depend on the network.
package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?\\n *```")
	span    = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)|(?m)^\[[^\]^]+\]:\s*(\S+)|(?:href|src)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *#*$`)
	markup  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[^\p{L}\p{N}\- _]`)
)

// anchors lists the fragments that GitHub gives to the headings of a Markdown text.
func anchors(text string) map[string]bool {
	seen := map[string]int{}
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := strings.ReplaceAll(strings.ToLower(markup.ReplaceAllString(m[1], "$1")), " ", "-")
		if n := seen[slug]; n > 0 {
			found[fmt.Sprintf("%s-%d", slug, n)] = true
		}
		seen[slug]++
		found[slug] = true
	}
	return found
}

// check says what is wrong with one link of file, or nothing.
func check(file, target string) string {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() || u.Host != "" {
		return ""
	}
	path := file
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(file), u.Path)
	}
	if !filepath.IsLocal(path) {
		return "leads out of the repository"
	}
	info, err := os.Stat(path)
	if err != nil {
		return "no such file"
	}
	if info.IsDir() { // of which GitHub shows the README
		path = filepath.Join(path, "README.md")
	}
	if u.Fragment == "" || filepath.Ext(path) != ".md" {
		return ""
	}
	if text, err := os.ReadFile(path); err != nil || !anchors(string(text))[u.Fragment] {
		return "no such heading"
	}
	return ""
}

func main() {
	failed := false
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		prose := span.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1] + m[2] + m[3]
			if problem := check(file, target); problem != "" {
				fmt.Printf("%s: %s: %s\n", file, target, problem)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}
