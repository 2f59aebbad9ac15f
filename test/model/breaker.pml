/* breaker - one breaker, its callers and whoever overrides it, in every order of their steps: what the
 * C code does to a word that threads share, in one atomic operation, is one step here.
 *
 * doc/model.md says which function a step is of, what is left out, and how to read a trail. The names
 * in capitals that are asked for with #ifdef are mutations: `check` defines them, one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* How much there is of everything. */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef CALLS
#define CALLS 2 /* begun by all threads together, beside those that are under way at the start */
#endif
#ifndef OVERRIDES
#define OVERRIDES 0
#endif
#ifndef CHANGES
#define CHANGES 0 /* of the numbers: openFor, probes */
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef RAMP_FOR
#define RAMP_FOR 0
#endif
#ifndef START
#define START (START_CLOSED | START_OPEN | START_HALF_OPEN)
#endif
#define START_CLOSED 1
#define START_OPEN 2
#define START_HALF_OPEN 4
#define START_OVERRIDE 8
#define PROBES 2
#define OPEN_FOR 1
#define LAST 2    /* the clock's last instant */
#define THE_END 9 /* when all that takes time is over */

/* enum weir__breaker_stage, and the phase's word. */
#define CLOSED 0
#define RAMP_BEGINS 1
#define RAMP 2
#define OPENING 3
#define OPEN 4
#define HALF_OPEN 5
#define FORCED_OPEN 6
#define DISABLED 7
#define PHASE(generation, stage) (((generation) << 3) | (stage))
#define GENERATION(phase) ((phase) >> 3)
#define STAGE(phase) ((phase) & 7)

/* A place's claim. */
#define FREE 0
#define HELD 1
#define SUCCEEDED 2
#define CLAIM(generation, number, status) (((generation) << 5) | ((number) << 2) | (status))
#define CLAIM_GENERATION(claim) ((claim) >> 5)
#define CLAIM_NUMBER(claim) (((claim) >> 2) & 7)
#define CLAIM_STATUS(claim) ((claim) & 3)

/* A ticket. */
#define NO_PLACE PROBES
#define SPENT 0
#define PENDING 1
#define STREAMING 2 /* its stream has had the first message */

/* What a thread has at the start. */
#define NOTHING 0
#define OLD_CALL 1 /* a call that was let through in generation 1, when the breaker was CLOSED */
#define PROBE(place) (2 + (place))

byte shared_phase;
byte at; /* OPEN, or in a ramp: since when */
short claims[PROBES];
byte leases[PROBES]; /* since when */
byte clock;

/* The numbers that hold; of more places than there may be probes, some are of before. */
#if CHANGES
byte n_probes = PROBES;
byte open_for = OPEN_FOR;
byte turn;
#else
#define n_probes PROBES
#define open_for OPEN_FOR
#define turn 0
#endif

/* What holds in truth, whatever the code thinks. */
byte era;         /* how often the state has changed */
byte true_at;     /* what `at` has to be while OPEN or in a ramp */
byte limit = PROBES; /* of probes at once: as many as may be, or as were out when there were more */
byte n_admitted;  /* of the half-open period that is on: probes let through, */
byte n_back;      /* places given back, or taken over because their lease was over, */
byte n_succeeded; /* and probes that have succeeded */
byte lease_ends[PROBES];
byte holders[PROBES]; /* which thread took the place last */

byte calls = CALLS; /* that may yet begin */
byte started;       /* a bit for each caller */
byte n_done;

inline change_to(generation, stage) {
  shared_phase = PHASE(generation, stage);
  era++;
  true_at = 0;
  n_admitted = 0; n_back = 0; n_succeeded = 0; limit = n_probes;
  lease_ends[0] = 0; lease_ends[1] = 0
}

/* What a thread has no use for any more would only multiply the states. */
inline forget() {
  phase = 0; old = 0; now = 0; i = 0; begun = 0; is_stale = false; has_moved_on = false;
  most = 0; count = 0; enough = 0; by_turn = 0
}

inline spend() {
  forget();
  t_generation = 0; t_place = 0; t_number = 0; t_stage = SPENT; t_era = 0
}

inline take_ticket(generation, place) {
  t_generation = generation; t_place = place; t_stage = PENDING; t_era = era;
  forget()
}

/* Or, in shadow mode, let through with a spent ticket, of which settle and release say nothing. Once
 * all is quiet and everything's time is over, this must not be. */
inline refused() {
  assert(!recovering);
  spend(); goto idle
}

inline is_occupied() {
  old = 0; i++;
  if
  :: i < most -> goto place_claim
  :: i >= most && most == PROBES -> refused()
  :: i >= most && most < PROBES -> i = 0; goto look_for_enough
  fi
}

/* Let through, as a probe. */
inline admitted() {
  assert(shared_phase == phase);
  n_admitted++;
  assert(recovering || n_admitted <= limit + n_back);
  take_ticket(GENERATION(phase), i);
  goto under_way
}

/* A success has been said. If it was a stream's first message, its end is to follow. */
inline has_succeeded() {
  if
  :: spend(); goto idle
  :: !recovering && t_stage == PENDING && t_place != NO_PLACE -> forget(); t_stage = STREAMING; goto under_way
  fi
}

/* The ticket that it has at the start is of a call that was let through before. Callers that have the
 * same are the same: their order does not matter, and `after` is the one that this one is to follow. */
proctype caller(byte nth; byte after; byte t_generation; byte t_place; byte t_number; byte t_stage; byte t_era) {
  byte phase, begun, now, i;
  short old;
  bool is_stale, has_moved_on, recovering;
  byte most;    /* n_probes, as it was read; and what else of the numbers */
  byte by_turn;
  byte count;   /* of places that are had, or have succeeded */
  byte enough;  /* of those that have succeeded */

  atomic {
    (started & after) == after;
    started = started | (1 << nth);
    after = 0;
    if
    :: t_stage == PENDING -> goto under_way
    :: else
    fi
  }

  /* A call begins. Its clock was read now, or a while ago. */
  idle:
  atomic {
    if
    :: recovering && (STAGE(shared_phase) == CLOSED || STAGE(shared_phase) == RAMP) -> goto end
    :: recovering && STAGE(shared_phase) != CLOSED && STAGE(shared_phase) != RAMP ->
      assert(STAGE(shared_phase) == OPEN || STAGE(shared_phase) == HALF_OPEN);
      assert(calls > 0);
      calls--; now = clock
    :: !recovering && calls == 0 ->
      n_done++;
      if
      :: nth == 0 -> goto recover
      :: else -> goto end
      fi
    :: !recovering && calls > 0 ->
      calls--;
      if
      :: clock < LAST -> clock++; now = clock
      :: now = clock
      :: clock > 0 -> now = clock - 1
      fi
    fi;
    goto load
  }

  /* --- weir_breaker_admit --- */

  admit:
  atomic {
    true;
    load:
    phase = shared_phase;
    if
    :: STAGE(phase) == CLOSED -> take_ticket(GENERATION(phase), NO_PLACE); goto under_way
    :: STAGE(phase) == RAMP_BEGINS ->
      if
      :: take_ticket(GENERATION(phase), NO_PLACE); goto under_way
      :: refused()
      fi
    :: STAGE(phase) == RAMP -> goto ramp
    :: STAGE(phase) == OPENING -> refused()
    :: STAGE(phase) == OPEN
    :: STAGE(phase) == HALF_OPEN -> i = 0; most = n_probes; by_turn = turn; goto place_claim
    :: STAGE(phase) == FORCED_OPEN -> refused()
    :: STAGE(phase) == DISABLED ->
#ifdef DISABLED_COUNTS
      take_ticket(GENERATION(phase), NO_PLACE); goto under_way
#else
      spend(); goto idle /* let through, with a spent ticket */
#endif
    fi
  }
  /* open_wait_ns */
  atomic {
    if
    :: now < at + open_for || has_moved_on -> refused()
    :: else -> most = open_for
    fi
  }
  /* half_open */
  atomic {
    if
    :: shared_phase == phase ->
      assert(now >= true_at + most);
      change_to(GENERATION(phase) + 1, HALF_OPEN);
      has_moved_on = true
    :: else
    fi;
    phase = 0; most = 0;
    goto admit
  }

  /* admit_in_ramp */
  ramp:
  atomic {
    if
    :: now < at + RAMP_FOR ->
      if
      :: GENERATION(shared_phase) == GENERATION(phase) -> take_ticket(GENERATION(phase), NO_PLACE); goto under_way
      :: GENERATION(shared_phase) != GENERATION(phase) ->
        take_ticket(GENERATION(phase), NO_PLACE);
        t_era = 0;
        goto under_way
      :: refused()
      fi
    :: else
    fi
  }
  atomic {
    if
    :: shared_phase == phase ->
      assert(now >= true_at + RAMP_FOR);
      shared_phase = PHASE(GENERATION(phase), CLOSED);
      true_at = 0
    :: else
    fi;
    /* with a ticket of the generation that was read, which may be over */
    is_stale = GENERATION(shared_phase) != GENERATION(phase);
    if
    :: is_stale -> take_ticket(GENERATION(phase), NO_PLACE); t_era = 0
    :: else -> take_ticket(GENERATION(phase), NO_PLACE)
    fi;
    goto under_way
  }

  /* place_claim, for one place after the other */
  place_claim:
  atomic {
    old = claims[i];
    again:
    if
    :: CLAIM_GENERATION(old) > GENERATION(phase) -> phase = 0; old = 0; i = 0; most = 0; by_turn = 0; goto admit
    :: CLAIM_GENERATION(old) < GENERATION(phase) -> goto lease_raise
    :: CLAIM_GENERATION(old) == GENERATION(phase) && CLAIM_STATUS(old) == FREE -> goto lease_raise
    :: CLAIM_GENERATION(old) == GENERATION(phase) && CLAIM_STATUS(old) == SUCCEEDED -> is_occupied()
    :: CLAIM_GENERATION(old) == GENERATION(phase) && CLAIM_STATUS(old) == HELD
    fi
  }
  /* lease_end */
  atomic {
    if
#ifdef NO_LEASE
    :: true -> is_occupied()
#endif
    :: now < leases[i] + LEASE -> is_occupied()
    :: now >= leases[i] + LEASE
    fi
  }
  lease_raise:
#ifndef LEASE_AFTER_CLAIM
  leases[i] = (leases[i] < now -> now : leases[i]);
#endif
#ifdef TWO_STEP_CLAIM
  atomic {
    if
    :: claims[i] == old
    :: else -> old = claims[i]; goto again
    fi
  }
#endif
  atomic {
    if
#ifdef TWO_STEP_CLAIM
    :: true ->
#else
    :: claims[i] == old ->
#endif
      if
      :: shared_phase == phase && CLAIM_GENERATION(old) == GENERATION(phase) && CLAIM_STATUS(old) == HELD ->
        assert(now >= lease_ends[i]);
        n_back++
      :: else
      fi;
#ifdef SAME_CLAIM_NUMBER
      t_number = CLAIM_NUMBER(old);
#else
      t_number = (CLAIM_NUMBER(old) + 1) & 7;
#endif
      claims[i] = CLAIM(GENERATION(phase), t_number, HELD);
      holders[i] = nth;
      if
      :: shared_phase == phase -> lease_ends[i] = now + LEASE
      :: else
      fi;
      old = 0
    :: else -> old = claims[i]; goto again
    fi
  }
#ifdef LEASE_AFTER_CLAIM
  leases[i] = (leases[i] < now -> now : leases[i]);
#endif
  /* weir__breaker_probe_claim */
  atomic {
    if
#ifdef NO_SECOND_LOOK
    :: true ->
#else
    :: shared_phase == phase ->
#endif
#if CHANGES
      count = 0
#else
      admitted()
#endif
    :: else ->
      phase = 0; t_number = 0; i = 0; most = 0; by_turn = 0;
      goto admit
    fi
  }
#if CHANGES
  /* claim_stands: the turn; then as many steps as there are places */
  atomic {
    t_place = i; i = 0;
    if
#ifdef NO_LOOK_AT_THE_TURN
    :: most == PROBES || by_turn != turn -> goto stands
#else
    :: by_turn != turn -> goto give_back
    :: by_turn == turn && most == PROBES -> goto stands
#endif
    :: by_turn == turn && most < PROBES
#ifdef NO_COUNT
      -> goto stands
#endif
    fi
  }
  count_places:
  atomic {
    if
    :: CLAIM_GENERATION(claims[i]) == GENERATION(phase) &&
      (CLAIM_STATUS(claims[i]) == SUCCEEDED || (CLAIM_STATUS(claims[i]) == HELD && now < leases[i] + LEASE)) ->
      count++
    :: else
    fi;
    i++;
    if
    :: i < PROBES -> goto count_places
    :: i == PROBES && count <= most -> goto stands
    :: i == PROBES && count > most -> goto give_back
    fi
  }
  stands:
  atomic {
    i = t_place; t_place = 0; count = 0;
    if
    :: shared_phase == phase -> admitted()
    :: else -> take_ticket(GENERATION(phase), i); t_era = 0; goto under_way /* it is over by now */
    fi
  }
  give_back:
  atomic {
    if
    :: claims[t_place] == CLAIM(GENERATION(phase), t_number, HELD) ->
      claims[t_place] = CLAIM(GENERATION(phase), t_number, FREE);
      if
      :: shared_phase == phase -> lease_ends[t_place] = 0
      :: else
      fi
    :: else
    fi;
    t_place = 0; t_number = 0; i = 0; count = 0;
    if
    :: by_turn != turn -> phase = 0; most = 0; by_turn = 0; goto admit
    :: else -> goto look_for_enough
    fi
  }
  /* as many as it takes may have succeeded already: then it is CLOSED, by this call */
  look_for_enough:
  atomic {
    if
    :: CLAIM_GENERATION(claims[i]) == GENERATION(phase) && CLAIM_STATUS(claims[i]) == SUCCEEDED -> enough++
    :: else
    fi;
    i++;
    if
    :: i < PROBES -> goto look_for_enough
    :: else -> i = 0
    fi;
    if
    :: enough < most || has_moved_on -> refused()
    :: else
    fi
#ifdef NO_ENOUGH
    ;
    refused()
#endif
  }
  atomic {
    if
    :: shared_phase == phase ->
      assert(n_succeeded >= most);
      has_moved_on = true;
      change_to(GENERATION(phase) + 1, CLOSED)
    :: else
    fi;
    phase = 0; most = 0; by_turn = 0; enough = 0;
    goto admit
  }
#else
  look_for_enough:
  skip;
#endif

  /* --- how it ends: weir_breaker_progress, weir_breaker_settle, weir_breaker_release --- */

  under_way:
  atomic {
    phase = shared_phase;
    is_stale = t_era != era || (t_place == 0 && holders[0] != nth) || (t_place == 1 && holders[1] != nth);
    if
    :: t_stage == PENDING -> /* an answer, or a stream's first message */
      if
      :: t_place == NO_PLACE -> has_succeeded()
      :: t_place != NO_PLACE && t_generation != GENERATION(phase) -> goto place_return
      :: t_place != NO_PLACE && t_generation == GENERATION(phase) -> goto place_succeed
      fi
    :: !recovering -> /* a failure */
      now = clock;
      if
#ifdef NO_GENERATION_CHECK
      :: goto failed
#else
      :: t_generation == GENERATION(phase) -> goto failed
      :: t_generation != GENERATION(phase) && t_place != NO_PLACE && t_stage == PENDING -> goto place_return
      :: t_generation != GENERATION(phase) && (t_place == NO_PLACE || t_stage == STREAMING) -> spend(); goto idle
#endif
      fi
    :: !recovering && t_place != NO_PLACE && t_stage == PENDING -> goto place_return /* ignored, or released */
    :: !recovering && t_place != NO_PLACE && t_stage == PENDING -> spend(); goto idle /* it never ends */
    fi
  }

  /* weir__breaker_probe_succeed */
  place_succeed:
#ifdef LOOK_FIRST
  atomic {
    if
    :: CLAIM_GENERATION(claims[1 - t_place]) == t_generation && CLAIM_STATUS(claims[1 - t_place]) == SUCCEEDED -> i = 1
    :: else
    fi
  }
#endif
  atomic {
    if
    :: claims[t_place] == CLAIM(t_generation, t_number, HELD) ->
      assert(!is_stale);
      claims[t_place] = CLAIM(t_generation, t_number, SUCCEEDED);
      if
      :: GENERATION(shared_phase) == t_generation -> n_succeeded++; lease_ends[t_place] = 0
      :: else
      fi
    :: else -> has_succeeded()
    fi;
#ifdef LOOK_FIRST
    if
    :: i == 0 -> has_succeeded()
    :: else -> i = 0; most = n_probes; goto close
    fi
#endif
#ifdef CLOSE_AT_FIRST
    most = n_probes;
    goto close
#endif
  }
  /* weir__breaker_probes_all_succeeded */
  all_succeeded:
  atomic {
    if
    :: i == 0 -> most = n_probes
    :: else
    fi;
    if
    :: CLAIM_GENERATION(claims[i]) == t_generation && CLAIM_STATUS(claims[i]) == SUCCEEDED -> enough++
    :: else
    fi;
    i++;
    if
    :: i < PROBES -> goto all_succeeded
    :: i == PROBES && enough < most -> has_succeeded()
    :: i == PROBES && enough >= most -> i = 0; enough = 0
    fi
  }
  /* breaker_close */
  close:
  atomic {
    if
#ifdef CLOSE_BY_STORE
    :: true ->
#else
    :: shared_phase == phase ->
#endif
      assert(t_era == era);
      assert(n_succeeded >= most);
      if
      :: RAMP_FOR == 0 -> change_to(t_generation + 1, CLOSED); has_succeeded()
      :: RAMP_FOR > 0 -> change_to(t_generation + 1, RAMP_BEGINS); now = clock; true_at = now; begun = shared_phase
      fi
    :: else -> has_succeeded()
    fi
  }
  goto publish;

  /* window_trips, or streak_grow; or weir__breaker_probe_is_own */
  failed:
  atomic {
    if
    :: t_place == NO_PLACE ->
      if
      :: true
      :: spend(); goto idle
      fi
#ifdef FREE_BEFORE_OPEN
    :: t_place != NO_PLACE && t_stage == PENDING && claims[t_place] == CLAIM(t_generation, t_number, HELD) ->
      claims[t_place] = CLAIM(t_generation, t_number, FREE);
      lease_ends[t_place] = 0
#else
    :: t_place != NO_PLACE &&
      claims[t_place] == CLAIM(t_generation, t_number, (t_stage == PENDING -> HELD : SUCCEEDED)) ->
      assert(!is_stale)
#endif
    :: else -> spend(); goto idle
    fi
  }
  /* breaker_open */
  open:
  atomic {
    if
    :: shared_phase == phase ->
      assert(t_era == era);
      assert(STAGE(phase) == CLOSED || STAGE(phase) == RAMP_BEGINS || STAGE(phase) == RAMP ||
        STAGE(phase) == HALF_OPEN);
#ifdef OPEN_AT_ONCE
      change_to(GENERATION(phase) + 1, OPEN);
#else
      change_to(GENERATION(phase) + 1, OPENING);
#endif
      true_at = now;
      begun = shared_phase
    :: else ->
      phase = shared_phase;
      if
#ifndef OPEN_ONCE
      :: GENERATION(phase) == t_generation -> goto open
#endif
      :: else -> assert(t_era != era); spend(); goto idle
      fi
    fi
  }

  /* phase_publish */
  publish:
  atomic { phase = 0; old = at }
  still_begun:
  atomic {
    if
#ifdef PUBLISH_UNSEEN
    :: true
#else
    :: shared_phase == begun
    :: else -> goto published
#endif
    fi
  }
  atomic {
    if
    :: at == old -> at = now
    :: else -> old = at; goto still_begun
    fi
  }
  atomic {
    if
#ifdef PUBLISH_BY_STORE
    :: true ->
#else
    :: shared_phase == begun ->
#endif
      assert(GENERATION(shared_phase) == GENERATION(begun));
      assert(at == true_at);
      shared_phase = PHASE(GENERATION(begun), (STAGE(begun) == RAMP_BEGINS -> RAMP : OPEN))
    :: else
    fi
  }
  published:
  atomic {
    if
    :: STAGE(begun) == RAMP_BEGINS -> begun = 0; has_succeeded()
    :: else -> spend(); goto idle
    fi
  }

  /* weir__breaker_probe_return */
  place_return:
  atomic {
    if
    :: claims[t_place] == CLAIM(t_generation, t_number, HELD) ->
      claims[t_place] = CLAIM(t_generation, t_number, FREE);
      if
      :: GENERATION(shared_phase) == t_generation -> n_back++; lease_ends[t_place] = 0
      :: else
      fi
    :: else
    fi;
    spend(); goto idle
  }

  /* All calls have ended, or never will, and the time of everything is over. A call that comes now is
   * let through, and when as many have succeeded as there are places the breaker is CLOSED. */
  recover:
  atomic {
    n_done == THREADS + (OVERRIDES > 0) + (CHANGES > 0);
    clock = THE_END;
    if
    :: STAGE(shared_phase) == FORCED_OPEN || STAGE(shared_phase) == DISABLED -> goto end
    :: else -> recovering = true; calls = PROBES; goto idle
    fi
  }
  end:
  skip
}

/* weir_breaker_set_override, and weir__breaker_recycle */
proctype operator() {
  byte n = OVERRIDES;
  byte phase, to;

  next:
  atomic {
    phase = 0; to = 0;
    if
    :: n == 0 -> n_done++; goto end
    :: n > 0 ->
      n--;
      if
      :: to = FORCED_OPEN
      :: to = DISABLED
      :: to = CLOSED
      fi
    fi
  }
  again:
  atomic {
    phase = shared_phase;
    if
    :: STAGE(phase) == to && to != CLOSED -> goto next
    :: to == CLOSED && STAGE(phase) != CLOSED && STAGE(phase) < FORCED_OPEN -> goto next
    :: else
    fi
  }
  atomic {
    if
    :: shared_phase == phase ->
#ifdef OVERRIDE_STAYS
      change_to(GENERATION(phase), to);
#else
      change_to(GENERATION(phase) + 1, to);
#endif
      goto next
    :: else -> goto again
    fi
  }
  end:
  skip
}

#if CHANGES
/* weir__breaker_rules_set: the page is written before, the turn is what makes it hold. */
proctype changer() {
  byte n = CHANGES;
  byte had, i;

  do
  :: atomic {
      n > 0 ->
      n--;
      turn++;
      if
      :: n_probes = 3 - n_probes
      :: open_for = 0
      :: open_for = 2
      fi;
      had = 0;
      for (i : 0 .. PROBES - 1) {
        if
        :: CLAIM_GENERATION(claims[i]) == GENERATION(shared_phase) && CLAIM_STATUS(claims[i]) != FREE -> had++
        :: else
        fi
      }
      limit = (had > n_probes -> had : n_probes);
      had = 0; i = 0
    }
  :: atomic { n == 0 -> n_done++; break }
  od
}
#endif

init {
  atomic {
    byte i, has, last, after, place;
    era = 1;
    if
    :: START & START_CLOSED -> shared_phase = PHASE(1, CLOSED)
    :: START & START_OPEN -> shared_phase = PHASE(4, OPEN)
    :: START & START_HALF_OPEN -> shared_phase = PHASE(5, HALF_OPEN)
    :: START & START_OVERRIDE -> shared_phase = PHASE(4, FORCED_OPEN)
    :: START & START_OVERRIDE -> shared_phase = PHASE(4, DISABLED)
    fi;
    for (i : 0 .. PROBES - 1) {
      if
      :: STAGE(shared_phase) == CLOSED
      :: STAGE(shared_phase) != CLOSED -> claims[i] = CLAIM(3, 1, HELD)
      :: STAGE(shared_phase) == HALF_OPEN ->
        claims[i] = CLAIM(5, 1, HELD);
        n_admitted++;
        lease_ends[i] = LEASE
      fi
    }
    holders[0] = THREADS; holders[1] = THREADS;
    last = PROBE(PROBES);
    for (i : 0 .. THREADS - 1) {
      if
      :: has = NOTHING
      :: last > OLD_CALL || (last == OLD_CALL && STAGE(shared_phase) == CLOSED) -> has = OLD_CALL
      :: last > PROBE(0) && CLAIM_STATUS(claims[0]) == HELD -> has = PROBE(0)
      :: last > PROBE(1) && CLAIM_STATUS(claims[1]) == HELD -> has = PROBE(1)
      fi;
      after = (i > 0 && has == last -> 1 << (i - 1) : 0);
      if
      :: has == NOTHING -> run caller(i, after, 0, 0, 0, SPENT, 0)
      :: has == OLD_CALL -> run caller(i, after, 1, NO_PLACE, 0, PENDING, (STAGE(shared_phase) == CLOSED -> era : 0))
      :: has >= PROBE(0) ->
        place = has - PROBE(0);
        holders[place] = i;
        run caller(i, after, CLAIM_GENERATION(claims[place]), place, CLAIM_NUMBER(claims[place]), PENDING,
          (CLAIM_GENERATION(claims[place]) == GENERATION(shared_phase) -> era : 0))
      fi;
      last = has
    }
#if OVERRIDES
    run operator();
#endif
#if CHANGES
    run changer();
#endif
    i = 0; has = 0; last = 0; after = 0; place = 0
  }
}
