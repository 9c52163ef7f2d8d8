package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-short"}, io.Discard)
	if err != nil || o.rounds != 1 || o.turn >= time.Second {
		t.Errorf("-short sets %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-rounds", "0"}, {"-turn", "0s"}, {"redis"}, {"-nothing"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestChoose(t *testing.T) {
	name := func(b measure.Block) string { return b.Name }
	chosen, err := choose("drain-bulk, create-one", measure.Blocks(), name)
	if err != nil || len(chosen) != 2 || chosen[1].Name != "create-one" {
		t.Errorf("chosen are %v, %v", chosen, err)
	}
	if _, err := choose("nothing", measure.Blocks(), name); err == nil || !strings.Contains(err.Error(), "drain-bulk") {
		t.Errorf("the error of an unknown name is %v", err)
	}
}
