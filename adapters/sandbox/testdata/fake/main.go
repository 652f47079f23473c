// SPDX-License-Identifier: Apache-2.0

// Command fake is a plugin for the tests of package sandbox. It simulates only those calls of a
// mail platform that the tests use. The name of the binary determines its behaviour.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	fs := flag.NewFlagSet("simulate", flag.ExitOnError)
	listen, data, zonesURL := fs.String("listen", "", ""), fs.String("data", "", ""), fs.String("world", "", "")
	if len(os.Args) < 2 || os.Args[1] != "simulate" || fs.Parse(os.Args[2:]) != nil {
		os.Exit(2)
	}
	switch filepath.Base(os.Args[0]) {
	case "nosimulator":
		fmt.Fprintln(os.Stderr, "no simulator")
		os.Exit(2)
	case "broken":
		fmt.Fprintln(os.Stderr, "the disk is full")
		os.Exit(1)
	case "babbling": // its first line is not a ready line
		fmt.Println("hello")
		sleep()
	case "open": // its address is not on loopback
		printReady("http://192.0.2.1:80", "open", *zonesURL)
		sleep()
	case "liar": // its ready line names a different provider
		printReady("http://127.0.0.1:1", "somebody-else", *zonesURL)
		sleep()
	}
	serve(*listen, *data, *zonesURL)
}

// sleep never returns. An empty select would end the process, because the runtime reports a
// deadlock.
func sleep() { time.Sleep(1<<63 - 1) }

func printReady(url, provider, zonesURL string) {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"provider": provider, "url": url, "control": []string{"tenants", "messages"},
		"settings": map[string]string{"login_url": url + "/login", "zones_url": zonesURL, "pid": strconv.Itoa(os.Getpid()), "env": strings.Join(os.Environ(), " ")},
		"secrets":  map[string]string{"client_secret": "s3cret"},
	})
}

func serve(listen, data, zonesURL string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.MkdirAll(data, 0o700)
	p := &platform{path: filepath.Join(data, "state.json")}
	p.load()
	printReady("http://"+l.Addr().String(), "fake", zonesURL)
	_ = http.Serve(l, p.handler())
}
