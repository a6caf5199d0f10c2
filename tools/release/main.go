// Release writes the modules of a commit of this repository as the go command fetches them, and the notes of their
// release, into a folder:
//
//	release [-out dist] [-commit HEAD]
//
// The folder goproxy serves as GOPROXY=file://…/goproxy. NOTES.md has the section Unreleased of CHANGELOG.md, and the
// lines of go.sum for every module. TAGS lists the tags for git. The modules under contrib require the root, and each
// other, in the version of the release.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

func main() {
	out := flag.String("out", "dist", "the folder to write to")
	commit := flag.String("commit", "HEAD", "the commit to release")
	flag.Parse()
	if err := release(".", *commit, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// part is a module of the repository.
type part struct {
	folder string // "" for the root
	mod    []byte // its go.mod
	module.Version
}

// tag returns the name of the git tag of a module that is in a folder.
func (p *part) tag() string { return path.Join(p.folder, p.Version.Version) }

func release(repository, commit, out string) error {
	told, err := git(repository, "log", "-1", "--format=%H %cI", commit)
	if err != nil {
		return err
	}
	commit, stamp, _ := strings.Cut(strings.TrimSpace(string(told)), " ")
	committed, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return err
	}
	parts, err := modules(repository, commit)
	if err != nil {
		return err
	}
	// Package zip wants the folder that holds .git as a folder: in another worktree .git is a file.
	shared, err := git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	repository = filepath.Dir(strings.TrimSpace(string(shared)))
	var tags, sums strings.Builder
	for _, p := range parts {
		lines, err := p.write(repository, commit, filepath.Join(out, "goproxy"), committed.UTC())
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		sums.WriteString(lines)
		fmt.Fprintln(&tags, p.tag())
	}
	changelog, err := git(repository, "show", commit+":CHANGELOG.md")
	if err != nil {
		return err
	}
	_, changes, _ := strings.Cut(string(changelog), "\n## [Unreleased]\n")
	changes, _, _ = strings.Cut(changes, "\n## ")
	notes := fmt.Sprintf("# %s\n\n%s\n\n## Checksums\n\nThe lines of `go.sum`:\n\n```\n%s```\n",
		parts[0].Version.Version, strings.TrimSpace(changes), sums.String())
	return errors.Join(os.WriteFile(filepath.Join(out, "NOTES.md"), []byte(notes), 0o644),
		os.WriteFile(filepath.Join(out, "TAGS"), []byte(tags.String()), 0o644))
}

// modules returns the root and the modules under contrib. All must require the same version of each other.
func modules(repository, commit string) ([]*part, error) {
	names, err := git(repository, "ls-tree", "-r", "--name-only", commit, "go.mod", "contrib")
	if err != nil {
		return nil, err
	}
	parts := []*part{{}}
	for name := range strings.Lines(string(names)) {
		if folder, base := path.Split(strings.TrimSpace(name)); base == "go.mod" && folder != "" {
			parts = append(parts, &part{folder: path.Clean(folder)})
		}
	}
	version, from := "", ""
	for _, p := range parts {
		if p.mod, err = git(repository, "show", commit+":"+path.Join(p.folder, "go.mod")); err != nil {
			return nil, err
		}
		file, err := modfile.Parse(path.Join(p.folder, "go.mod"), p.mod, nil)
		if err != nil {
			return nil, err
		}
		p.Path = file.Module.Mod.Path
		for _, required := range file.Require {
			if !within(required.Mod.Path, parts[0].Path) {
				continue
			}
			if version == "" {
				version, from = required.Mod.Version, file.Syntax.Name
			}
			if required.Mod.Version != version {
				return nil, fmt.Errorf("%s requires %s, but %s requires %s: make version VERSION=v… sets all", file.Syntax.Name,
					required.Mod, from, version)
			}
		}
	}
	for _, p := range parts {
		p.Version.Version = version
	}
	return parts, module.Check(parts[0].Path, version)
}

func within(modulePath, root string) bool {
	return modulePath == root || strings.HasPrefix(modulePath, root+"/")
}

// write writes the files of the module for a GOPROXY, and returns its lines of go.sum.
func (p *part) write(repository, commit, proxy string, committed time.Time) (sums string, err error) {
	escaped, err := module.EscapePath(p.Path)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(folder, p.Version.Version)
	info, err := json.Marshal(map[string]any{"Version": p.Version.Version, "Time": committed})
	if err != nil {
		return "", err
	}
	archive, err := os.Create(name + ".zip")
	if err != nil {
		return "", err
	}
	err = errors.Join(zip.CreateFromVCS(archive, p.Version, repository, commit, p.folder), archive.Close(),
		os.WriteFile(name+".mod", p.mod, 0o644), os.WriteFile(name+".info", info, 0o644),
		os.WriteFile(filepath.Join(folder, "list"), []byte(p.Version.Version+"\n"), 0o644))
	if err != nil {
		return "", err
	}
	whole, err := dirhash.HashZip(name+".zip", dirhash.Hash1)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"},
		func(string) (io.ReadCloser, error) { return os.Open(name + ".mod") })
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", p.Path, p.Version.Version, whole, mod), err
}

func git(repository string, arguments ...string) ([]byte, error) {
	out, err := exec.Command("git", append([]string{"-C", repository}, arguments...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("git %s: %s", strings.Join(arguments, " "), strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
