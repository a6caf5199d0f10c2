package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?\\n *```")
	span    = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)|(?m)^\[[^\]^]+\]:\s*(\S+)|(?:href|src)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *#*$`)
	markup  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[^\p{L}\p{N}\- _]`)
)

// links reports the relative links and anchors that do not exist. Links to other hosts are not
// followed: the result does not depend on the network.
func links(files []string) (problems []string, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		prose := span.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1] + m[2] + m[3]
			if problem := deadLink(file, target); problem != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: %s", file, target, problem))
			}
		}
	}
	return problems, nil
}

func deadLink(file, target string) (problem string) {
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
	if info.IsDir() { // GitHub shows its README
		path = filepath.Join(path, "README.md")
	}
	if u.Fragment == "" || filepath.Ext(path) != ".md" {
		return ""
	}
	if text, err := os.ReadFile(path); err != nil || !slices.Contains(anchors(string(text)), u.Fragment) {
		return "no such heading"
	}
	return ""
}

// anchors returns the fragments that GitHub gives to the headings of a Markdown text.
func anchors(text string) (found []string) {
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := strings.ReplaceAll(strings.ToLower(markup.ReplaceAllString(m[1], "$1")), " ", "-")
		found = append(found, slug)
		if n := seen[slug]; n > 0 {
			found = append(found, fmt.Sprintf("%s-%d", slug, n))
		}
		seen[slug]++
	}
	return found
}
