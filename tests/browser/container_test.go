package browser_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// dockerfile is the text of the sandbox's Dockerfile.
func dockerfile() (string, error) {
	text, err := os.ReadFile("../../cmd/lending-sandbox/Dockerfile")
	return string(text), err
}

// lineOf returns the rest of the line of a Dockerfile with this form.
func lineOf(text, form string) (string, error) {
	found := regexp.MustCompile(`(?m)^` + form + `$`).FindStringSubmatch(text)
	if len(found) != 2 {
		return "", errors.New("the Dockerfile has no line like " + form)
	}
	return found[1], nil
}

var copied = regexp.MustCompile(`(?m)^COPY ([a-z]\S+)(?: (\S+))? \S+$`)

// buildContainer runs the build command of the Dockerfile with only the copied files, and without a
// network. The program is alone in the folder root.
func buildContainer(source, root string) (program string, err error) {
	text, err := dockerfile()
	if err := errors.Join(err, os.Mkdir(source, 0o755), os.Mkdir(root, 0o755)); err != nil {
		return "", err
	}
	for _, match := range copied.FindAllStringSubmatch(text, -1) {
		for _, name := range match[1:] {
			if name != "" {
				err = errors.Join(err, copyTree(filepath.Join("..", "..", name), filepath.Join(source, name)))
			}
		}
	}
	command, missing := lineOf(text, `RUN (.*)`)
	if err := errors.Join(err, missing); err != nil {
		return "", err
	}
	program = filepath.Join(root, "sandbox")
	build := exec.Command("sh", "-c", strings.ReplaceAll(command, "/sandbox ", program+" "))
	build.Dir = source
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOMODCACHE="+filepath.Join(source, "none"),
		"GOTOOLCHAIN=local", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

func copyTree(from, to string) error {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
