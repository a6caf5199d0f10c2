package browser_test

import (
	"debug/elf"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/control"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sandbox of these tests is the container's program: static, and started by the Dockerfile's entry
// point as an unknown user in an empty root folder.
func TestContainerRunsWithoutFilesAndRights(t *testing.T) {
	text, err := dockerfile()
	require.NoError(t, err)
	line := func(form string) string {
		rest, err := lineOf(text, form)
		require.NoError(t, err)
		return rest
	}
	built, err := elf.Open(program)
	require.NoError(t, err)
	defer built.Close()
	for _, part := range built.Progs {
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
	address := freeAddress(t)
	for i := range entry {
		entry[i] = strings.Replace(entry[i], ":8080", address, 1)
	}
	root := filepath.Dir(program)
	for folder := root; folder != os.TempDir() && len(folder) > 1; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o755)) // another user has to get in
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

	url := "http://" + address
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
	steer := control.Dial(url + "/_control/")
	steer.Token = "t0"
	_, err = steer.Snapshot(t.Context())
	require.NoError(t, err)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "docker stop sends SIGTERM, and it stops by itself")
	assert.Contains(t, printed.String(), "The sandbox has stopped.")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
