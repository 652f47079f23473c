// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/plugins/wire"
)

const (
	// checkTime bounds each check, openTime what several of them wait for. On a small
	// or busy machine the first start of all plugins alone takes more than 10 s.
	checkTime = 60 * time.Second
	openTime  = 30 * time.Second
)

// checks are what doctor looks at, in the order of its report.
var checks = []struct {
	id  string
	run func(*examination, context.Context) finding
}{
	{"database", (*examination).database},
	{"migrations", (*examination).migrations},
	{"keyset", (*examination).keyset},
	{"public_url", (*examination).publicURL},
	{"plugins", (*examination).plugins},
	{"mail_platform", (*examination).mailPlatform},
	{"dns", (*examination).dns},
	{"redis", (*examination).redis},
	{"clock", (*examination).clock},
	{"credentials", (*examination).credentials},
}

// finding is what a check found. Neither summary nor fix may hold a secret or
// a customer's data; the fix is what a person can type or change.
type finding struct{ status, summary, fix string }

func fine(summary string, args ...any) finding {
	return finding{status: isOK, summary: fmt.Sprintf(summary, args...)}
}

func doubtful(fix, summary string, args ...any) finding {
	return finding{isWarning, fmt.Sprintf(summary, args...), fix}
}

func broken(fix, summary string, args ...any) finding {
	return finding{isFailed, fmt.Sprintf(summary, args...), fix}
}

// unchecked is the finding of a check that needs what another found broken.
func unchecked(other string) finding {
	return doubtful("mend the check "+other+" first", "not checked: the check %s comes first", other)
}

// examination is one run of doctor. What several checks need is opened once,
// by whichever comes first.
type examination struct {
	config settings.Config
	// wrong tells what is wrong with settings that a check looks at.
	wrong map[string]string
	open  func() (*bunstore.Inspection, error)
	host  func() (*pluginhost.Host, error)
	about func(provider string) (wire.Description, error)
}

// newExamination refuses settings that serve would refuse and that no check
// looks at.
func newExamination(c settings.Config) (*examination, error) {
	e := &examination{config: c, wrong: map[string]string{}}
	for _, problem := range c.Problems() {
		switch problem.Setting {
		case "public_url", "redis_url", "dns_resolvers", "dns_mode", "dns_port":
			e.wrong[problem.Setting] = problem.Text
		default:
			return nil, problem
		}
	}
	return e, nil
}

// run makes all checks side by side, so that one that waits holds up none.
func (e *examination) run(ctx context.Context) report {
	e.open = sync.OnceValues(func() (*bunstore.Inspection, error) {
		ctx, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		return bunstore.Inspect(ctx, e.config.DatabaseURL)
	})
	e.host = sync.OnceValues(func() (*pluginhost.Host, error) {
		return pluginhost.New(pluginhost.Options{Dir: e.config.PluginDir, Log: slog.New(slog.DiscardHandler), Env: os.Environ()})
	})
	e.about = func(provider string) (wire.Description, error) {
		host, err := e.host()
		if err != nil {
			return wire.Description{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		return host.Describe(ctx, provider)
	}
	r := report{Status: isOK, Version: version, Checks: make([]diagnosis, len(checks))}
	var all sync.WaitGroup
	for i := range checks {
		all.Go(func() { r.Checks[i] = e.check(ctx, i) })
	}
	all.Wait()
	e.close()
	for _, d := range r.Checks {
		if d.Status == isFailed || r.Status == isOK {
			r.Status = d.Status
		}
	}
	return r
}

// check makes one check. One that does not keep its deadline is left behind.
func (e *examination) check(ctx context.Context, i int) diagnosis {
	began := time.Now()
	found := make(chan finding, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		found <- checks[i].run(e, ctx)
	}()
	var f finding
	select {
	case f = <-found:
	case <-time.After(checkTime + time.Second):
		f = broken("run `tenantry doctor` again; what it asks there does not answer", "no result within %s", checkTime)
	}
	return diagnosis{checks[i].id, f.status, f.summary, f.fix, time.Since(began).Milliseconds()}
}

// close ends what was opened. Where a check was left behind, the end of the
// process does the rest.
func (e *examination) close() {
	if db, err := e.open(); err == nil {
		_ = db.Close()
	}
	if host, err := e.host(); err == nil {
		host.Close()
	}
}
