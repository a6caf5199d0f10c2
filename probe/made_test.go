package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// lines returns the lines of a file that are records, by walk, and the number of other lines.
func lines(t *testing.T, path string) (walks [][]Made, damaged int) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		var m Made
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &m) != nil:
			damaged++
		case m.What == "walk":
			walks = append(walks, []Made{m})
		default:
			walks[len(walks)-1] = append(walks[len(walks)-1], m)
		}
	}
	return walks, damaged
}

// A walk that ends in the middle of a mutation has listed each record before. The next walk begins anew, behind
// the cut line of the first.
func TestKilledWalkListsItsRecords(t *testing.T) {
	t.Parallel()
	for action, listed := range map[string]int{
		"create-customer": 0, "create-application": 1, "update-application-name": 2, "process-application": 2,
		"cancel-application": 4,
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newVariant(t)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				v.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					v.Service.ServeHTTP(w, r)
					if strings.Contains(r.URL.Path, "/"+action) && ctx.Err() == nil {
						end()
						panic(http.ErrAbortHandler)
					}
				})
				options := v.options(t)
				options.Partner, options.Loan, options.WebhookURL = lending.PartnerID{}, lending.LoanID{}, ""
				killed := Run(&log{TB: t, ctx: ctx}, options)
				require.ErrorContains(t, killed.Err, options.File+" lists what was created; start again for another walk")
				file, err := os.OpenFile(options.File, os.O_APPEND|os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = file.WriteString(`{"at":"2026`)
				require.NoError(t, err)
				require.NoError(t, file.Close())
				next := Run(&log{TB: t}, options)
				require.NoError(t, next.Err)

				walks, damaged := lines(t, options.File)
				assert.Equal(t, 1, damaged)
				require.Len(t, walks, 2)
				assert.Equal(t, killed.Made, append([]Made(nil), walks[0][1:]...))
				assert.Len(t, walks[0], 1+listed)
				assert.Equal(t, next.Made, walks[1][1:])
				assert.NotEqual(t, walks[0][0].ID, walks[1][0].ID, "the e-mail address of another customer")
				assert.Equal(t, 2, v.Executed("POST /api/Application/create-customer"))
			})
		})
	}
}

// Two probes share a file without losing a line. Only its owner may read the file.
func TestTwoProbesShareAFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := newVariant(t), newVariant(t)
		options := one.options(t)
		var made [2]int
		var all sync.WaitGroup
		for i, v := range []*variant{one, two} {
			own := v.options(t)
			own.File, own.WebhookURL = options.File, ""
			all.Go(func() { made[i] = len(Run(&log{TB: t}, own).Made) })
		}
		all.Wait()
		walks, damaged := lines(t, options.File)
		assert.Zero(t, damaged)
		require.Len(t, walks, 2)
		assert.Equal(t, 4, made[0])
		assert.Equal(t, 2+made[0]+made[1], len(walks[0])+len(walks[1]))
		info, err := os.Stat(options.File)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
	})
}
