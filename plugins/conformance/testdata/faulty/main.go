// SPDX-License-Identifier: Apache-2.0

// Command faulty is a plugin with one planted bug, which the suite must detect. The part of its
// file name after the first "=" is the name of the bug. If the file name has no "=", the plugin has
// no bug. Some names are not bugs, but variants that the suite must accept. If the file name begins
// with "mail-" or "sending-", the plugin has this kind. Otherwise it is a DNS provider.
//
//   - main.go: the description, the commands, and the bugs of the process. Start here.
//   - raw.go: a plugin without the SDK, for bugs that a plugin with the SDK cannot have.
//   - provider.go: the calls, and the bugs in them.
//   - mail.go: the reads of a mail platform. All reads make the same call of the API.
//   - sending.go: the reads of a sending platform, and the bugs in them.
//   - simulator.go: the simulator of the invented provider.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

// bug is the planted bug, or "".
var bug = func() string {
	_, name, _ := strings.Cut(filepath.Base(os.Args[0]), "=")
	return name
}()

var kind = func() wire.Kind {
	switch name, _, _ := strings.Cut(filepath.Base(os.Args[0]), "-"); name {
	case "mail", "sending":
		return wire.Kind(name)
	}
	return wire.KindDNS
}()

// tokenField is the name of the secret. The host expects sending platforms to use the name api_key.
var tokenField = map[wire.Kind]string{wire.KindDNS: "api_token", wire.KindMail: "api_token", wire.KindSending: "api_key"}[kind]

// strictProvider is not a bug but a variant. It makes the simulator enforce the rate strictRate and
// a minimum TTL.
const (
	strictProvider = "strict-provider"
	strictRate     = 4 // requests per second
)

func description() sdk.Description {
	described := sdk.Description{
		Name: "faulty", Kind: kind, Version: "1.0.0", Title: "Faulty",
		Fields: []sdk.Field{
			{Name: "api_url", Default: "https://api.faulty.example", Help: "base URL of the API"},
			{Name: tokenField, Account: true, Secret: true, Required: true, Help: "token of the account"},
		},
		Budgets: []sdk.Budget{{Key: "credential", Limit: 1000, Window: time.Minute}},
	}
	switch kind {
	case wire.KindDNS:
		described.NameServers = []string{"*.provider.example"}
	case wire.KindSending:
		described.Fields = append(described.Fields, sdk.Field{Name: "workspace_id", Account: true, Help: "id of the workspace"})
	}
	switch bug {
	case "no-title":
		described.Title = ""
	case "no-help":
		described.Fields[0].Help = ""
	case "secret-not-marked":
		described.Fields[1].Secret = false
	case "odd-name":
		described.Name = "Odd Name"
	case "odd-budget-key":
		described.Budgets[0].Key = "tenant" // only a mail platform has tenants
	case "claims-every-name-server":
		described.NameServers = []string{"*.com"}
	case "unknown-capability":
		described.Capabilities = []string{"bogus"}
	case "no-workspace":
		described.Fields = described.Fields[:2]
	case "no-window":
		described.Budgets[0].Window = 0
	case strictProvider:
		// A large zone has several pages, so a call makes several requests.
		described.Budgets = []sdk.Budget{{Key: "credential", Limit: strictRate, Window: time.Second, Costs: map[string]int{"records": 3, "apply": 3}}}
	case "describes-fewer-fields":
		if len(os.Args) > 1 {
			described.Fields = described.Fields[:1]
		}
	case "describes-other-budgets":
		if len(os.Args) > 1 {
			described.Budgets[0].Limit++
		}
	case "describes-other-name-servers":
		if len(os.Args) > 1 {
			described.NameServers = []string{"*.ns.provider.example"}
		}
	case "describes-otherwise":
		if len(os.Args) > 1 {
			described.Version = "2.0.0"
		}
	}
	return described
}

func main() {
	withoutCommand := len(os.Args) < 2
	switch {
	case bug == "noise-before-handshake" && withoutCommand, bug == "noise-in-describe" && !withoutCommand && os.Args[1] == "describe":
		fmt.Println("Welcome to Faulty DNS!")
	case bug == "exits-with-0" && withoutCommand && os.Getenv("TENANTRY_PLUGIN") == "":
		os.Exit(0)
	case bug == "describe-needs-home" && !withoutCommand && os.Args[1] == "describe" && os.Getenv("HOME") == "":
		fmt.Fprintln(os.Stderr, "HOME is not set")
		os.Exit(1)
	case bug == "starts-late" && withoutCommand && wire.Hosted():
		time.Sleep(time.Second)
	case isRaw() && withoutCommand && wire.Hosted():
		fmt.Fprintln(os.Stderr, serveRaw())
		os.Exit(1)
	case bug == "never-exits" && withoutCommand:
		os.Stdin, _, _ = os.Pipe()
	case bug == "one-process-only" && withoutCommand:
		if _, err := net.Listen("unix", "@tenantry-faulty-"+fmt.Sprint(os.Getppid())); err != nil {
			os.Exit(1)
		}
	}
	plugin := sdk.Plugin{
		Describe: description(), Simulator: newSimulator,
	}
	switch kind {
	case wire.KindDNS:
		plugin.DNS = func(c sdk.Connection) (sdk.DNSProvider, error) { return provider{c}, nil }
	case wire.KindMail:
		plugin.Mail = func(c sdk.Connection) (sdk.MailPlatform, error) { return mailPlatform{provider: provider{c}}, nil }
	case wire.KindSending:
		plugin.Sending = func(c sdk.Connection) (sdk.SendingPlatform, error) {
			return sendingPlatform{provider: provider{c}}, nil
		}
	}
	if bug == "no-simulator" {
		plugin.Simulator = nil
	}
	sdk.Serve(plugin)
}
