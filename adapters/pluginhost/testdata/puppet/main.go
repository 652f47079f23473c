// SPDX-License-Identifier: Apache-2.0

// Command puppet is a plugin written with the SDK that misbehaves on request. The setting `do` of a
// call's connection selects what Profile does. The name of the file also selects how the plugin
// misbehaves. If the name contains `crashes`, the plugin exits at the start. If it contains
// `silent`, the plugin does nothing. If it contains `exits-first`, the plugin exits in its first
// call of Profile. The file mail-NAME-VERSION is a plugin of that version.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

func main() {
	switch {
	case strings.Contains(os.Args[0], "crashes"):
		fmt.Fprintln(os.Stderr, "cannot go on")
		os.Exit(3)
	case strings.Contains(os.Args[0], "silent"):
		time.Sleep(1<<63 - 1) // an empty select would end the process, as a deadlock
	}
	name, version, found := strings.Cut(strings.TrimPrefix(filepath.Base(os.Args[0]), "mail-"), "-")
	if !found {
		version = "1.2.3"
	}
	sdk.Serve(sdk.Plugin{
		Describe: sdk.Description{
			Name: name, Kind: wire.KindMail, Version: version, Title: "Puppet",
			Fields:  []sdk.Field{{Name: "do", Help: "how to misbehave"}},
			Budgets: []sdk.Budget{{Key: "tenant", Limit: 10, Window: time.Second}},
		},
		Mail:  func(c sdk.Connection) (sdk.MailPlatform, error) { return puppet{connection: c}, nil },
		Waits: waits,
	})
}

var waits = sdk.NewWaits(nil)

type puppet struct {
	sdk.MailPlatform // nil: the methods that puppet does not define panic
	sdk.MailTenant
	connection sdk.Connection
}

func (p puppet) For(t tenant.GUID) sdk.MailTenant { return p }

// Profile returns the process id as Name, os.Args[0] as BuiltinDomain, and the request id of the
// context as DefaultDomain. The setting `do` can select a different behaviour.
func (p puppet) Profile(ctx context.Context) (tenant.Profile, error) {
	if strings.Contains(os.Args[0], "exits-first") {
		os.Exit(4)
	}
	switch p.connection.Settings["do"] {
	case "refuse":
		return tenant.Profile{}, &outcome.Error{Kind: outcome.Refused, Code: fault.AccessDenied, Detail: "no consent", Cause: "invalid_client"}
	case "bare":
		return tenant.Profile{}, fmt.Errorf("the password is %s", p.connection.Secrets["token"].Reveal())
	case "panic":
		panic("the password is " + p.connection.Secrets["token"].Reveal())
	case "die loudly":
		go panic("the password is\n" + p.connection.Secrets["token"].Reveal())
		<-ctx.Done()
		return tenant.Profile{}, ctx.Err()
	case "make others wait":
		waits.Extend(ctx, "tenant", time.Hour)
	case "ask":
		return profileNamed(fmt.Sprint(waits.Left(ctx, "tenant") > 0)), nil
	case "eat memory":
		for held := [][]byte{}; ; {
			held = append(held, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "open files":
		return profileNamed(strconv.Itoa(openFiles())), nil
	case "fork":
		return profileNamed(strconv.Itoa(fork())), nil
	case "exit":
		os.Exit(4)
	case "hang":
		<-ctx.Done()
		return tenant.Profile{}, ctx.Err()
	case "huge":
		return tenant.Profile{Name: strings.Repeat("x", 2*wire.MaxMessage)}, nil
	case "flood":
		for i := range 100_000 {
			fmt.Fprintf(os.Stderr, "line %d \x1b[31m %s\n", i, p.connection.Secrets["token"].Reveal())
		}
		fmt.Fprintln(os.Stderr, strings.Repeat("long", 1<<20))
	}
	profile := profileNamed(strconv.Itoa(os.Getpid()))
	profile.DefaultDomain = ports.RequestID(ctx)
	return profile, nil
}

// profileNamed returns a profile with this name that the host accepts.
func profileNamed(name string) tenant.Profile {
	return tenant.Profile{Name: name, BuiltinDomain: os.Args[0]}
}

// leaked has files that are never closed.
var leaked []*os.File

// openFiles opens files until it fails, leaves them open, and returns their number.
func openFiles() int {
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return len(leaked)
		}
		leaked = append(leaked, f)
	}
}

// fork starts processes until it fails, or until there are maxForks. It leaves them running and
// returns their number.
func fork() int {
	for n := range maxForks {
		if exec.Command("/bin/sleep", "3600").Start() != nil {
			return n
		}
	}
	return maxForks
}

const maxForks = 500

// Domains returns a domain for each environment variable, with `name=value` as its name.
func (p puppet) Domains(context.Context) ([]domain.Platform, error) {
	var list []domain.Platform
	for _, v := range os.Environ() {
		list = append(list, domain.Platform{Name: v})
	}
	return list, nil
}
