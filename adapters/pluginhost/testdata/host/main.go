// SPDX-License-Identifier: Apache-2.0

// Command host runs a plugin host for tests. Its first argument is the plugin folder. The other
// arguments are names of plugins. It calls Profile of each plugin and prints the field Name of the
// answer. By default, Name is the plugin's process id. An argument such as NAME=fork determines
// what the plugin does in the call. Then the command waits for SIGTERM and stops the plugins.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/plugins/wire"
)

func main() {
	stop := make(chan os.Signal, 1)
	// A test may send SIGTERM as soon as it has read the first line of output.
	signal.Notify(stop, syscall.SIGTERM)
	host, err := pluginhost.New(pluginhost.Options{
		Dir: os.Args[1], Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Supervision: pluginhost.SupervisionPolicy{StartTimeout: 4 * time.Minute},
		Limits:      wire.Limits{Processes: 64},
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, argument := range os.Args[2:] {
		name, do, _ := strings.Cut(argument, "=")
		connection := wire.Connection{Settings: map[string]string{"do": do}}
		p, err := host.Mail(name, func(context.Context) (wire.Connection, error) { return connection, nil }).For("t").Profile(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Name)
	}
	<-stop
	host.Close()
}
