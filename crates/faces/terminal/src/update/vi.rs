//! Keys of vi, for those who want them: the few that a prompt needs.

use crate::{
    composer::CaretMove,
    effect::TermEffect,
    event::{KeyCode, KeyPress},
    keymap::KeyAction,
    model::TermModel,
};

impl TermModel {
    /// A key in one of vi's modes; says whether it was for that.
    pub(super) fn vi_key(&mut self, key: KeyPress, effects: &mut Vec<TermEffect>) -> bool {
        if !self.vi_normal {
            let leaves =
                key == KeyPress::plain(KeyCode::Esc) && !self.composer.is_empty() && !self.offers.is_open();
            self.vi_normal = leaves;
            return leaves;
        }
        let Some(it) = key.typed() else { return false };
        if let Some(first) = self.vi_pending.take() {
            self.vi_two(first, it);
            return true;
        }
        match it {
            'h' => self.composer.go(CaretMove::Left),
            'l' | ' ' => self.composer.go(CaretMove::Right),
            'j' => self.act(KeyAction::Down, effects),
            'k' => self.act(KeyAction::Up, effects),
            'w' | 'e' => self.composer.go(CaretMove::WordRight),
            'b' => self.composer.go(CaretMove::WordLeft),
            '0' | '^' => self.composer.go(CaretMove::LineStart),
            '$' => self.composer.go(CaretMove::LineEnd),
            'G' => self.composer.go(CaretMove::End),
            'x' => self.composer.kill(CaretMove::Right),
            'D' => self.composer.kill(CaretMove::LineEnd),
            'C' => {
                self.composer.kill(CaretMove::LineEnd);
                self.vi_normal = false;
            }
            'u' => self.composer.undo(),
            'p' => self.composer.yank(),
            'i' => self.vi_normal = false,
            'I' => self.vi_insert(CaretMove::LineStart),
            'a' => self.vi_insert(CaretMove::Right),
            'A' => self.vi_insert(CaretMove::LineEnd),
            'o' => {
                self.vi_insert(CaretMove::LineEnd);
                self.composer.insert("\n");
            }
            'd' | 'c' | 'g' => self.vi_pending = Some(it),
            _ => (),
        }
        true
    }

    fn vi_insert(&mut self, to: CaretMove) {
        self.composer.go(to);
        self.vi_normal = false;
    }

    fn vi_two(&mut self, first: char, second: char) {
        let to = match second {
            'w' | 'e' => CaretMove::WordRight,
            'b' => CaretMove::WordLeft,
            '$' => CaretMove::LineEnd,
            '0' => CaretMove::LineStart,
            'g' if first == 'g' => return self.composer.go(CaretMove::Start),
            it if it == first => {
                self.composer.go(CaretMove::LineStart);
                CaretMove::LineEnd
            }
            _ => return,
        };
        self.composer.kill(to);
        self.vi_normal = first != 'c';
    }
}
