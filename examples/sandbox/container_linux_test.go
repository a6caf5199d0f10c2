package main

import (
	"debug/elf"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Dockerfile's own command builds the program from no more than what it copies and from no
// network, and its own entry point runs it where there is nothing else, as nobody.
func TestContainer(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	line := func(form string) string {
		found := regexp.MustCompile(`(?m)^` + form + `$`).FindStringSubmatch(string(text))
		require.Len(t, found, 2, form)
		return found[1]
	}

	source, root := t.TempDir(), t.TempDir()
	for _, match := range regexp.MustCompile(`(?m)^COPY ([a-z]\S+)(?: (\S+))? \S+$`).FindAllStringSubmatch(string(text),
		-1) {
		for _, name := range match[1:] {
			if name != "" {
				copyTree(t, filepath.Join("..", "..", name), filepath.Join(source, name))
			}
		}
	}
	command := strings.ReplaceAll(line(`RUN (.*)`), "/sandbox ", filepath.Join(root, "sandbox")+" ")
	build := exec.CommandContext(t.Context(), "sh", "-c", command)
	build.Dir = source
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOMODCACHE="+filepath.Join(source, "none"),
		"GOTOOLCHAIN=local", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	program, err := elf.Open(filepath.Join(root, "sandbox"))
	require.NoError(t, err)
	defer program.Close()
	for _, part := range program.Progs {
		assert.NotEqual(t, elf.PT_INTERP, part.Type, "it is static")
	}

	if os.Getuid() != 0 {
		t.Skip("the program was built and not run: only root may give it an empty root folder")
	}
	var entry []string
	require.NoError(t, json.Unmarshal([]byte(line(`ENTRYPOINT (.*)`)), &entry))
	user, err := strconv.ParseUint(line(`USER (\d+):\d+`), 10, 32)
	require.NoError(t, err)
	require.NotZero(t, user)
	port := freePort(t)
	for i := range entry {
		entry[i] = strings.Replace(entry[i], ":8080", "127.0.0.1:"+port, 1)
	}
	require.NoError(t, os.Chmod(root, 0o755)) // another user has to get in
	for folder := filepath.Dir(root); folder != os.TempDir() && len(folder) > 1; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755))
	}
	cmd := exec.CommandContext(t.Context(), entry[0], entry[1:]...)
	cmd.Args = append(cmd.Args, "-control-token", "t0")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{
		Uid: uint32(user),
		Gid: uint32(user),
	}}
	printed := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = printed, printed
	require.NoError(t, cmd.Start())

	url := "http://127.0.0.1:" + port
	require.Eventually(t, func() bool {
		resp, err := http.Get(strings.Replace(url, "//", "//anyone:t0@", 1)) // the page needs the token as the password
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(page), "Lending sandbox")
	}, 20*time.Second, 10*time.Millisecond)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	require.NoError(t, err)
	assert.Contains(t, string(status), "Uid:\t65532\t65532\t65532\t65532")
	s := &sandbox{t: t, url: url, client: http.DefaultClient, token: "t0"}
	code, _, answer := s.do(http.MethodGet, "/_control/snapshot", "")
	assert.Equal(t, http.StatusOK, code, answer)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "docker stop sends SIGTERM, and it stops by itself")
	assert.Contains(t, printed.String(), "The sandbox has stopped.")
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
