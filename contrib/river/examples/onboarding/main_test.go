package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program starts itself, which is the test binary here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "unkeyed" {
		go endWith(os.Stdin)
		if err := workUnkeyed(context.Background(), os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestOutputUnderKill(t *testing.T) {
	customers, _ := onboardingtest.Size()
	out, err := shown(t, "worker")
	require.NoError(t, err)
	assert.Contains(t, out, fmt.Sprintf("%d of %[1]d withdrawals confirmed", customers))
	assert.Contains(t, out, fmt.Sprintf(`
                wanted  in the service  commands executed
customers       %6d          %6[1]d             %6[1]d
applications    %6[1]d          %6[1]d             %6[1]d
offers          %6[1]d          %6[1]d             %6[1]d
applicants      %6[1]d          %6[1]d             %6[1]d
documents       %6[2]d          %6[2]d             %6[2]d
signatures      %6[1]d          %6[1]d             %6[1]d
withdrawals     %6[1]d          %6[1]d             %6[1]d
`, customers, 2*customers))
	assert.Contains(t, out, "nothing left in doubt")
}

func shown(t *testing.T, worker string) (string, error) {
	t.Helper()
	customers, kills := onboardingtest.Size()
	var out bytes.Buffer
	err := run(t.Context(), &out, show{customers, kills, worker})
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	t.Logf("%s", out.Bytes())
	return out.String(), err
}

// TestWithoutLog runs the same jobs without keys. The jobs save their progress in a file after
// each step, and look unknown outcomes up. The test runs only if flags ask for many customers.
func TestWithoutLog(t *testing.T) {
	if customers, _ := onboardingtest.Size(); customers < onboardingtest.Many {
		return
	}
	t.Setenv(keepVariable, t.TempDir())
	_, err := shown(t, "unkeyed")
	require.Error(t, err)
	require.Regexp(t, `applications: not 1 for each customer: [1-9]\d* too many`, err.Error())
	t.Log(err)
}

const keepVariable = "LENDING_ONBOARDING_KEEP" // the folder of a worker without a log

// unkeyed is a worker without a log.
type unkeyed struct {
	worker

	address string
}

func (u *unkeyed) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	var n int
	if _, err := fmt.Sscanf(job.Args.Order, "order-%d", &n); err != nil {
		return err
	}
	if err := onboardingtest.Unkeyed(ctx, u.client, u.address, n, os.Getenv(keepVariable)); err != nil {
		return err
	}
	return complete(ctx, u.pool, job)
}

func workUnkeyed(ctx context.Context, address, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := lending.New(address, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	return serve(ctx, pool, &unkeyed{worker{client: client, pool: pool}, address})
}

// A count that is not ten ends the program with an error.
func TestCountFails(t *testing.T) {
	require.Error(t, onboarding.Result{}.Count(&bytes.Buffer{}, 10))
}
