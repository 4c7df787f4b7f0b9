//! Scores decodings of a few non-ASCII bytes.
//!
//! The statistical detector works on a page of text but not on one word: it takes a lone `µm` for
//! Traditional Chinese. For little evidence this module scores how much each decoding looks like real
//! text.

/// Common Chinese and Japanese characters.
const IDEOGRAPHS: &str = "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小\
    么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但身些与\
    高意进把法此实回二理美点月明其种全工己话向情部正名定女问力机给等几业最间新什打便位因重被走电四第门相次东政海口使教西再平\
    真世气信北少关并内加化由代产入先山五太水万市体别处总场师书比住员性通目报立命活数件安表原车白应路期常提感金何更反合放做\
    系计或司利受光果界及今京务制解各任至清物台记边共风战接特直服题建南度统色字请交让认算论百义科元社术结六功指思非流每管\
    连远资队带花快条院变联言权往展该领传近留治保达办运半必城强步完深区即求品转量空技程告江语英基满式写识极令收持取设始版\
    双史商片容研像找友站广改议形早房音火则首单据导失网石校读志视离切称值置配错误测试简输请编码删添键户密登录服端循环类型参\
    説値設東開閉語書読変数関込込見入出処理検索定義実行結果確認変更追加削除保存終了始戻次前選択画面表示印刷注意警告開発者\
    情報戦経済気車円電話学校会社員時間曜週広県町村駅店";

/// Common Korean syllables.
const SYLLABLES: &str = "이다는을를에의가고하지은한서로기사도리어자시그대해일정인수나보아부거만장스게제상전원성여구주안녕세요\
    설명값름오류울테트작결과파일행실변경추삭저종료음입력출화면표국민년월중학생들것있없않니습됩까와과라든며면적용확취소문\
    관비교열닫새내보등록로그아웃회원번호계산합목간방법선택완예외처";

/// Plausibility of a decoding per byte of evidence. Larger is better; implausible text is negative.
pub(super) fn plausibility(text: &str, evidence: usize) -> i64 {
    let mut score = 0;
    let mut before = '\n';
    let mut after = text.chars().skip(1);
    for character in text.chars() {
        let next = after.next().unwrap_or('\n');
        if !character.is_ascii() {
            score += of_char(before, character, next);
        }
        before = character;
    }
    score * 100 / i64::try_from(evidence.max(1)).unwrap_or(i64::MAX)
}

fn of_char(before: char, character: char, next: char) -> i64 {
    match character {
        char::REPLACEMENT_CHARACTER => -8,
        '\u{80}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' => -10,
        // East Asian characters do not occur inside Latin words.
        '\u{3000}'..='\u{d7a3}' if before.is_ascii_alphabetic() && next.is_ascii_alphabetic() => -3,
        // Kana, ideographic punctuation, full-width forms.
        '\u{3041}'..='\u{30ff}' => 6,
        '\u{3000}'..='\u{3020}' | '\u{ff01}'..='\u{ff5e}' => 4,
        // Half-width kana count only next to each other.
        '\u{ff61}'..='\u{ff9f}' => {
            if is_half_width(before) || is_half_width(next) {
                2
            } else {
                -2
            }
        }
        '\u{ac00}'..='\u{d7a3}' => {
            if SYLLABLES.contains(character) {
                6
            } else {
                1
            }
        }
        '\u{4e00}'..='\u{9fff}' => {
            if IDEOGRAPHS.contains(character) {
                6
            } else {
                1
            }
        }
        _ if is_western(character) => of_western(before, character, next),
        'а'..='я' | 'ё' if is_cyrillic(before) || is_cyrillic(next) => 2,
        'А'..='Я' if is_cyrillic(next) && !is_cyrillic(before) => 2,
        'А'..='я' | 'ё' => -3,
        it if it.is_alphabetic() && (before.is_alphabetic() || next.is_alphabetic()) => 2,
        _ => -3,
    }
}

fn is_half_width(character: char) -> bool {
    ('\u{ff61}'..='\u{ff9f}').contains(&character)
}

fn is_cyrillic(character: char) -> bool {
    ('А'..='я').contains(&character)
}

fn is_western(character: char) -> bool {
    "éèêëàâäáãåæçîïíìôöóòõøùûüúÿñßœšžÉÈÊÀÂÄÁÃÅÆÇÎÍÔÖÓÕØÛÜÚÑŒŠŽ©®°±§µ£€¥«»–—‘’“”…½¼¾·×²³¹ºª¿¡¶•™†\u{a0}"
        .contains(character)
}

/// Accented letters occur between letters, symbols outside words, and two of either are rarely adjacent.
fn of_western(before: char, character: char, next: char) -> i64 {
    let unusual = |it: char| !it.is_ascii();
    let company = i64::from(unusual(before)) + i64::from(unusual(next));
    if character.is_alphabetic() {
        let at_word_end = !next.is_ascii_alphabetic() && !before.is_ascii_alphabetic();
        let lower_case_after_capital = character.is_uppercase() && before.is_ascii_lowercase();
        3 - 2 * company - i64::from(at_word_end) - 3 * i64::from(lower_case_after_capital)
    } else {
        let inside_word = before.is_ascii_alphabetic() && next.is_ascii_alphabetic();
        let apostrophe = matches!(character, '’' | '–' | '·' | '°');
        3 - 2 * company - 3 * i64::from(inside_word && !apostrophe)
    }
}
