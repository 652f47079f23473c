// SPDX-License-Identifier: Apache-2.0

// Command host runs a plugin host for tests. Its first argument is the plugin folder. The other
// arguments are names of plugins. It starts each plugin and prints the plugin's process id. Then it
// waits to be killed.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/plugins/wire"
)

func main() {
	h, err := pluginhost.New(pluginhost.Options{Dir: os.Args[1], Supervision: pluginhost.SupervisionPolicy{StartTimeout: 4 * time.Minute}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, name := range os.Args[2:] {
		p, err := h.Mail(name, func(context.Context) (wire.Connection, error) { return wire.Connection{}, nil }).For("t").Profile(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Name)
	}
	select {}
}
